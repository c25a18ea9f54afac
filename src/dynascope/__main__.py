"""`python -m dynascope` is the command `dynascope`."""

from dynascope.cli import main

if __name__ == "__main__":
    main()
