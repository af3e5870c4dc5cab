"""The command line `tracelens-graph`: one file per command, each parses, calls an analysis and presents."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; ends the process with its exit code."""
    from tracelens_graph.cli.interrupts import quitting_on_interrupts

    quitting_on_interrupts()
    from tracelens_graph.cli.ending import ending_on_signals, standard_streams

    with standard_streams(), ending_on_signals():
        if sys.argv[1:] == ["--version"]:  # needs none of the commands, whose making takes most of the time
            from tracelens_graph._version import __version__

            print(f"tracelens-graph {__version__}")
            return
        from tracelens_graph.cli.app import app

        app()
