"""Write a simulated profile of JAX: `python -m tracelens_graph.simulate.xla OUT --devices 2`."""

from __future__ import annotations

import argparse
import sys

from tracelens_graph.simulate.__main__ import add_settings
from tracelens_graph.simulate.xla import Options, simulate, write


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tracelens_graph.simulate.xla",
        description="Write the profile of a simulated training run of JAX, and the truth about it, into a folder.",
    )
    parser.add_argument("out", metavar="OUT", help="folder to write into")
    add_settings(parser, Options)
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
