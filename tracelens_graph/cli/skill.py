"""`tracelens-graph skill`."""

from __future__ import annotations

from importlib.resources import files

import typer


def skill() -> None:
    """Print the skill that lets a coding assistant answer questions with this program.

    Example: tracelens-graph skill > ~/.claude/skills/tracelens-graph/SKILL.md
    """
    typer.echo(files("tracelens_graph.cli").joinpath("SKILL.md").read_text(), nl=False)
