echo 6
