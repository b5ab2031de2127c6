print("loops")
