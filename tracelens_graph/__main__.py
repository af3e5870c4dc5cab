"""`python -m tracelens_graph` is the command line."""

from tracelens_graph.cli import main

main()
