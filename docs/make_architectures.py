"""Write the tables of docs/architectures.md from the files that describe the devices.

python docs/make_architectures.py            write them
python docs/make_architectures.py --check    change nothing; end with 1 if they are out of date
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence

from pages import DOCS, publish

from tracelens_graph.perf.devices import FIGURES, Architecture, shipped

PAGE = DOCS / "architectures.md"
_MADE = re.compile(r"(?<=<!-- Made by docs/make_architectures.py\. -->\n).*?(?=<!-- End\. -->)", re.DOTALL)
_RIDGES = ("matrix_fp16", "matrix_fp8", "vector_fp32")


def page() -> str:
    """The page with its tables as they should be."""
    tables = "".join(_tables(list(shipped().values())))
    return _MADE.sub(lambda _: tables, PAGE.read_text())


def _tables(architectures: Sequence[Architecture]) -> Iterator[str]:
    groups = {
        "Memory": [name for name in FIGURES if not name.startswith(("matrix_", "vector_"))],
        "Matrix units, TFLOP/s": [name for name in FIGURES if name.startswith("matrix_")],
        "Vector units, TFLOP/s": [name for name in FIGURES if name.startswith("vector_")],
    }
    for title, names in groups.items():
        yield f"\n### {title}\n\n"
        head = ["architecture", *(name.rpartition("trix_")[2].rpartition("ctor_")[2] for name in names)]
        yield from _rows(
            head, ([f"`{one.key}`", *(_number(one.value(name)) for name in names)] for one in architectures)
        )
    yield "\n### Ridge points, FLOP/byte\n\n"
    rows = ([f"`{one.key}`", *(_number(one.ridge(name)) for name in _RIDGES)] for one in architectures)
    yield from _rows(["architecture", *(f"`{name}`" for name in _RIDGES)], rows)
    yield f"\n### Devices\n\n{'; '.join(f'`{one.key}`: {one.name}' for one in architectures)}.\n\n"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.5g}" if value < 1e4 else f"{value:,.1f}"


def _rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n"


if __name__ == "__main__":
    sys.exit(publish({PAGE: page()}))
