"""The command line `tracelens-graph`: each command parses, calls an analysis and presents."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; ends the process with its exit code."""
    from tracelens_graph.cli.ending import ending_on_signals, open_standard_streams, quitting_on_interrupts

    quitting_on_interrupts()
    open_standard_streams()
    with ending_on_signals():
        if sys.argv[1:] == ["--version"]:  # needs none of the commands, whose making takes most of the time
            from tracelens_graph._version import __version__

            print(f"tracelens-graph {__version__}")
            return
        from tracelens_graph.cli.app import app

        app()
