"""What all programs do with results, whatever framework measured them: print them, write them, and end."""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from textwrap import wrap
from typing import Any

# What stands below goes into programs.


def quartiles(times: list[float]) -> list[float]:
    """Three numbers that part times into four equal parts; the second is the median."""
    return statistics.quantiles(times * 2 if len(times) == 1 else times, n=4, method="inclusive")


FIGURES = (
    ("computes", "tflops", "TFLOP/s"),
    ("moves", "tbytes_per_s", "TB/s"),
    ("reaches", "percent_of_roof", "% of the traced GPU's roof"),
    ("traced", "traced_us", "us a call on the traced GPU, the median"),
    ("ratio", "ratio_to_traced", "times what was traced"),
    ("GPU work", "kernel_us", "us in one call under the profiler"),
    ("shrunk", "largest_size", "is the largest size: figures are not those of the traced call"),
)


def show(result: dict[str, Any]) -> None:
    """Print a result, at most 80 columns wide."""
    low, high = result["spread_us"]
    framework = f"torch {result['torch']}" if result["torch"] else result["library"]
    say("operation", f"{result['op']} on {result['device']}, {framework}")
    say("median", f"{digits(result['median_us'])} us a call ({result['iterations']} calls)")
    say("spread", f"{digits(low)} to {digits(high)} us in half of the calls")
    for label, key, unit in FIGURES:
        if result.get(key) is not None:
            calls = f" of {result['count']:,} calls" * (key == "traced_us" and result["count"] > 1)
            say(label, f"{digits(result[key])} {unit}{calls}")
    compared = {True: ", the same as traced", False: ", others than traced", None: ""}[result.get("kernels_as_traced")]
    kernels = result.get("kernels", [])
    for name in kernels[:9]:
        say("kernel", name)
    if kernels:
        say("kernels", f"{len(kernels)}{compared}")
    for text in result["assumed"]:
        say("assumed", text)


def say(label: str, text: str) -> None:
    """Print a line, wrapped behind its label."""
    print("\n".join(wrap(text, 80, initial_indent=f"{label:<9} ", subsequent_indent=" " * 10)))


def digits(value: float) -> str:
    """A number with two decimals, a small one with three digits."""
    return f"{value:,.2f}".removesuffix(".00") if value >= 1 else f"{value:.3g}"


def write_results(file: str | None, results: list[dict[str, Any]]) -> None:
    """Write results where they are asked for, one on a line."""
    text = "[" + ",\n ".join(map(json.dumps, results)) + "]\n"
    if file == "-":
        print(text, end="", file=sys.__stdout__)
    elif file:
        write(file, lambda part: Path(part).write_text(text))


def write(file: str, save: Callable[[str], Any]) -> None:
    """Save a file whole or not at all."""
    part = os.path.join(os.path.dirname(file), ".part." + os.path.basename(file))
    save(part)
    os.replace(part, file)


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """What a program is asked for; what it could not do or write is refused before it measures."""
    asked = parser.parse_args()
    if asked.iterations is not None and asked.iterations < 1:
        parser.error("--iterations: 1 or more is wanted")
    file = asked.json if asked.json != "-" else ""
    if file and (os.path.isdir(file) or not os.access(os.path.dirname(file) or ".", os.W_OK)):
        parser.error(f"--json: no file can be written as {file}")
    return asked


def ended(run: Callable[[], int], name: str, asked: argparse.Namespace) -> int:
    """The exit code of what a program does; an error is one line."""
    try:
        with redirect_stdout(sys.stderr if asked.json == "-" else sys.stdout):
            return run()
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        print(f"{name}: {why(error)}", file=sys.stderr)
        return 1


def why(error: Exception, op: str = "") -> str:
    """What an error says, in one line; the op where it is not the one that is named."""
    text = (str(error) or type(error).__name__).splitlines()[0]
    lacking = re.match(r"Could not run '(.+?)' with arguments from the '(\w+)' backend", text)
    if lacking:
        inner = f"{lacking[1]} " if lacking[1] != op else ""
        remedy = "; run it on a GPU" if lacking[2].endswith("CPU") else ""
        return f"{inner}has no {lacking[2]} kernel in this PyTorch{remedy}"
    return text if len(text) <= 300 else f"{text[:296].rpartition(' ')[0] or text[:296]} ..."
