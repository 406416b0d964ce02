"""`python -m ragkit`."""

from ragkit.cli import main

main()
