"""Write a simulated profile of JAX: `python -m tracelens_graph.simulate.xla OUT --devices 2`."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import Any, get_args

from tracelens_graph.simulate.xla import CommandBuffers, Options, simulate, write


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tracelens_graph.simulate.xla",
        description="Write the profile of a simulated training run of JAX, and the truth about it, into a folder.",
    )
    parser.add_argument("out", metavar="OUT", help="folder to write into")
    for setting in dataclasses.fields(Options):
        reading: dict[str, Any] = {"type": int, "metavar": "N"}
        if isinstance(setting.default, bool):
            reading = {"action": argparse.BooleanOptionalAction}
        elif isinstance(setting.default, str):
            reading = {"choices": get_args(CommandBuffers)}
        flag = "--" + setting.name.replace("_", "-")
        parser.add_argument(flag, default=argparse.SUPPRESS, help=f"default {setting.default}", **reading)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the command; gives the exit status."""
    settings = vars(_parser().parse_args(arguments))
    out = settings.pop("out")
    try:
        run = simulate(**settings)
        file = write(run, out)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{file}: {len(run.truth['gpu_events']['uid'])} events on the GPU")
    return 0


if __name__ == "__main__":
    sys.exit(main())
