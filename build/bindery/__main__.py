"""`python -m bindery` is the console script."""

from bindery.cli.main import main

if __name__ == "__main__":
    main()
