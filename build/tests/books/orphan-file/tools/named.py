import beside

print(beside)
