"""`python -m dynascope.cli` is the command `dynascope`."""

from dynascope.cli import main

main()
