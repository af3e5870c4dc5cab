"""Write simulated traces: `python -m tracelens_graph.simulate OUT --ranks 2 --seed 7`, of a server with `--serving`."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin, get_type_hints

from tracelens_graph import simulate as training
from tracelens_graph.simulate import PROBLEMS, Options, serving
from tracelens_graph.simulate.options import Names, Numbers, PerClock, Places, Sizes


def _parser(is_serving: bool) -> argparse.ArgumentParser:
    what = "server of a language model" if is_serving else "training run"
    parser = argparse.ArgumentParser(
        prog="python -m tracelens_graph.simulate",
        description=f"Write the traces of a simulated {what}, and the truth about them, into a folder.",
    )
    parser.add_argument("out", metavar="OUT", help="folder to write into")
    parser.add_argument("--serving", action="store_true", help="simulate a server, with options of its own")
    parser.add_argument("--traces-only", action="store_true", help="write the traces alone")
    if not is_serving:
        parser.add_argument("--problem", choices=list(PROBLEMS), help="plant this problem")
    add_settings(parser, serving.Options if is_serving else Options)
    return parser


def add_settings(parser: argparse.ArgumentParser, options: Any) -> None:
    """Add an option for each field of a class of settings; what is not given is not among the arguments."""
    types = get_type_hints(options)
    for setting in dataclasses.fields(options):
        wanted: dict[str, Any] = {"default": argparse.SUPPRESS, "help": f"default {_shown(setting.default)}"}
        flag = "--" + setting.name.replace("_", "-")
        parser.add_argument(flag, dest=setting.name, **wanted, **_reading(types[setting.name]))


def _reading(kind: Any) -> dict[str, Any]:
    """How argparse reads a setting of a type."""
    if kind is bool:
        return {"action": argparse.BooleanOptionalAction}
    if get_origin(kind) is Literal:
        return {"choices": get_args(kind)}
    lists: dict[Any, tuple[Callable[[str], Any], str]] = {
        PerClock: (_per_clock, "N[,N...]"),
        Names: (_items(str), "NAME[,NAME...]"),
        Numbers: (_items(int), "N[,N...]"),
        Sizes: (_items(float), "N[,N...]"),
        Places: (_items(_place), "RANK:N[,RANK:N...]"),
    }
    if kind in lists:
        read, shown = lists[kind]
        return {"type": read, "metavar": shown}
    plain = next(one for one in (*get_args(kind), kind) if one in (int, float, str))
    return {"type": plain, "metavar": "NAME" if plain is str else "N"}


def _items(read: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    def items(text: str) -> tuple[Any, ...]:
        return tuple(read(one) for one in text.split(","))

    items.__name__ = "list"  # as errors of argparse name the type
    return items


def _place(text: str) -> tuple[int, int]:
    rank, place = text.split(":")
    return int(rank), int(place)


def _per_clock(text: str) -> float | tuple[float, ...]:
    numbers = tuple(map(float, text.split(",")))
    return numbers if len(numbers) > 1 else numbers[0]


def _shown(default: Any) -> str:
    return ",".join(map(str, default)) or "none" if isinstance(default, tuple) else str(default)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; gives the exit status."""
    is_serving = "--serving" in (sys.argv[1:] if arguments is None else arguments)
    settings = vars(_parser(is_serving).parse_args(arguments))
    out, traces_only, _ = (settings.pop(name) for name in ("out", "traces_only", "serving"))
    simulator: Any = serving if is_serving else training
    try:
        run = simulator.simulate(**settings)
        files = simulator.write(run, out, traces_only=traces_only)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for file, rank in zip(files, run.ranks, strict=True):
        events, work = len(rank.trace["traceEvents"]), len(rank.truth["gpu_events"]["uid"])
        print(f"{file}: {events} events, {work} on the GPU")
    return 0


if __name__ == "__main__":
    sys.exit(main())
