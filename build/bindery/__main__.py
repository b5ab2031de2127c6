"""`python -m bindery` is the console script."""

from bindery.cli.main import start

if __name__ == "__main__":
    start()
