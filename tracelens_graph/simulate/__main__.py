"""Write simulated traces: `python -m tracelens_graph.simulate OUT --ranks 2 --seed 7`."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import Any, get_args, get_type_hints

from . import PROBLEMS, Options, simulate, write


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tracelens_graph.simulate",
        description="Write the traces of a simulated training run, and the truth about them, into a folder.",
    )
    parser.add_argument("out", metavar="OUT", help="folder to write into")
    parser.add_argument("--problem", choices=list(PROBLEMS), help="plant this problem")
    types = get_type_hints(Options)
    for setting in dataclasses.fields(Options):
        kind, flag = types[setting.name], "--" + setting.name.replace("_", "-")
        wanted: dict[str, Any] = {"default": argparse.SUPPRESS, "help": f"default {setting.default}"}
        if kind is bool:
            wanted["action"] = argparse.BooleanOptionalAction
        elif kind in (int, float):
            wanted |= {"type": kind, "metavar": "N"}
        elif int in get_args(kind):
            wanted |= {"type": int, "metavar": "N"}
        else:
            wanted["choices"] = get_args(kind)
        parser.add_argument(flag, dest=setting.name, **wanted)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the command; gives the exit status."""
    settings = vars(_parser().parse_args(arguments))
    out = settings.pop("out")
    try:
        run = simulate(**settings)
        files = write(run, out)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for file, rank in zip(files, run.ranks, strict=True):
        events, work = len(rank.trace["traceEvents"]), len(rank.truth["gpu_events"]["uid"])
        print(f"{file}: {events} events, {work} on the GPU")
    return 0


if __name__ == "__main__":
    sys.exit(main())
