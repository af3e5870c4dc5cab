"""What it costs a coding assistant to read our answers to the questions of TraceLens's evaluations.

    .venv/bin/python benchmarks/agents/evaluate.py [FOLDER]

No language model is asked. A task of `tasks.toml` is a question, the commands that answer it, and the figures and words
that their output must hold: those that TraceLens's references give. Of each task it prints calls, tokens (bytes of
UTF-8 / 4) and what is missing, and ends with 1 if anything is, or a task takes more than `CALLS` or `TOKENS`.

FOLDER holds the cases; by default that beside the checkout.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from tracelens_graph.cli.app import app

HERE = Path(__file__).resolve().parent
CASES = HERE.parents[2] / "shared/traces/external"
CALLS, TOKENS = 3, 4_000
"""What a task may take."""

WITHIN = 0.01
"""Relative difference of figures that are one, as in TraceLens's graders."""

_MS = {"s": 1e3, "ms": 1.0, "us": 1e-3}
_NUMBER = re.compile(r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)(?: ?(%|ms|us|s|calls?|TFLOP/s|TB/s)(?!\w))?")
_FROM_TO = re.compile(r"([\d.,]+) +-> +([\d.,]+) (\S+)")
"""A figure of both sides, whose unit stands behind the second."""


@dataclass(frozen=True)
class Task:
    """A question and what its answer must hold.

    Attributes:
        case: its folder in that of the cases.
        question: what a user asks.
        calls: the commands that answer it.
        figures: numbers, mostly with a unit.
        words: texts that stand in the answer.
    """

    case: str
    question: str
    calls: tuple[str, ...]
    figures: tuple[str, ...]
    words: tuple[str, ...]

    def files(self, folder: Path) -> dict[str, str]:
        """What stands for its traces and its device in the commands."""
        traces = sorted((folder / self.case).glob("trace*.json.gz"))
        return {"arch": str(HERE / "mi300x.json"), **dict(zip("AB", map(str, traces), strict=False))}

    def reference(self, folder: Path) -> str:
        """What TraceLens's evaluation gives as the answer, without its pictures."""
        return re.sub(r"\(data:image[^)]*\)", "", (folder / self.case / "reference.md").read_text())


@dataclass(frozen=True)
class Result:
    """What answers to a task cost, and lack."""

    task: Task
    tokens: int
    missing: tuple[str, ...]

    @property
    def passes(self) -> bool:
        """Whether all is there, within what a task may take."""
        return not self.missing and self.tokens <= TOKENS and len(self.task.calls) <= CALLS


def tasks() -> list[Task]:
    """All tasks."""
    data = tomllib.loads((HERE / "tasks.toml").read_text())
    usual = {1: data["calls"]["one"], 2: data["calls"]["two"]}
    return [
        Task(
            case=one["case"],
            question=one["question"],
            calls=tuple(one.get("calls", usual[1 + ("comparative" in one["case"])])),
            figures=tuple(one["figures"]),
            words=tuple(one["words"]),
        )
        for one in data["task"]
    ]


def figures(text: str) -> Iterator[tuple[float, str]]:
    """Numbers of a text and their units, times in ms."""
    for number, unit in _NUMBER.findall(_FROM_TO.sub(r"\1 \3 -> \2 \3", text)):
        value = float(number.replace(",", ""))
        yield (value * _MS[unit], "ms") if unit in _MS else (value, unit.removesuffix("s") if "call" in unit else unit)


def holds(text: str, figure: str, whatever_unit: bool = False) -> bool:
    """Whether a text has a figure, within 1 % or what it is rounded to.

    Args:
        figure: a number and its unit; without one, any number counts.
        whatever_unit: whether a unit does not count: columns of tables have it in their heading.
    """
    ((wanted, unit),) = figures(figure)
    digits = len(re.sub(r"[^.\d].*", "", figure).partition(".")[2])
    near = max(WITHIN * wanted, 0.5 * 10**-digits * _MS.get(figure.rpartition(" ")[2], 1.0))
    return any(abs(value - wanted) <= near and (whatever_unit or unit in ("", other)) for value, other in figures(text))


def answer(task: Task, folder: Path) -> str:
    """What the commands of a task print."""
    files = task.files(folder)
    found = []
    for call in task.calls:
        result = CliRunner(env={"COLUMNS": None}).invoke(app, [word.format(**files) for word in call.split()])
        if result.exit_code:
            raise SystemExit(f"{task.case}: {call}: {result.output}")
        found.append(result.stdout + result.stderr)
    return "\n".join(found)


def result(task: Task, folder: Path) -> Result:
    """What the answers to a task cost and lack."""
    text = answer(task, folder)
    plain = " ".join(text.split())
    missing = [figure for figure in task.figures if not holds(plain, figure)]
    missing += [word for word in task.words if word not in plain]
    return Result(task, -(-len(text.encode()) // 4), tuple(missing))


def main(folder: Path = CASES) -> int:
    """Print a line for each task; 1 if one fails."""
    results = [result(task, folder) for task in tasks()]
    print("| case | calls | tokens | figures and words | missing |\n|---|---:|---:|---:|---|")
    for one in results:
        task = one.task
        wanted = len(task.figures) + len(task.words)
        name, said = Path(task.case).name, ", ".join(one.missing)
        print(f"| {name} | {len(task.calls)} | {one.tokens:,} | {wanted - len(one.missing)} of {wanted} | {said} |")
    return int(not all(one.passes for one in results))


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
