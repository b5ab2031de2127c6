echo 4
