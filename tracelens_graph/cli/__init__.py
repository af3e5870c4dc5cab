"""The command line `tracelens-graph`: one file per command, each parses, calls an analysis and presents."""

from __future__ import annotations


def main() -> None:
    """Run the command line; ends the process with its exit code."""
    from tracelens_graph.cli.app import app

    app()
