"""`python -m peers.cli`, the same as `hub`."""

from peers.cli import main

main()
