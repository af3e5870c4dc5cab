"""The command line `tracelens-graph`: one file per command, each parses, calls an analysis and presents."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; ends the process with its exit code."""
    if sys.argv[1:] == ["--version"]:  # needs none of the commands, whose making takes most of the time
        from tracelens_graph._version import __version__

        print(f"tracelens-graph {__version__}")
        return
    from tracelens_graph.cli.app import app

    app()
