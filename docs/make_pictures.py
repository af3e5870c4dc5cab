"""Draw the pictures of the documentation from the code.

    python docs/make_pictures.py            write docs/pictures/*.svg
    python docs/make_pictures.py --check    change nothing; end with 1 if a picture is out of date

`layers.svg` shows the layers that the import contract in pyproject.toml keeps, `graph.svg` kinds and edge types of
the schema on one small example.
"""

from __future__ import annotations

import re
import sys
import textwrap
import tomllib
from collections.abc import Iterable, Iterator
from html import escape
from typing import NamedTuple

from pages import CHECKOUT, DOCS, publish

from tracelens_graph.schema import EVENT_EDGES, Kind

PURPOSE = {
    "cli": "one file per command: parse, call an analysis, present",
    "linkage": "an operator of the execution trace to its kernels, and back",
    "api": "what users of Python call first: load(), load_set(), from_networkx()",
    "ogm": "what push stored, as objects of py2neo",
    "compat": "everything that is TraceLens's: names, calls, layouts",
    "embedded": "Cypher without a server, on an embedded engine",
    "db": "graphs in Neo4j: push, ask, pull, drop; a local server",
    "replay": "any operation of a trace as a program that calls it by itself",
    "nxview": "all networkx faces of the columns: TraceGraph, sets, comparisons",
    "loading": "one trace, many traces in parallel, execution traces paired with them",
    "reports": "tables, trees, reports: text, CSV, JSON, Markdown, xlsx, HTML",
    "stores": "the graph file, the cache, exports, pieces of traces",
    "loaders": "one folder per input format; stands beside the package as loaders/",
    "simulate": "training runs whose truth is known",
    "analyses": "one folder per theme of questions; each answers with a Table",
    "frameworks": "what differs between traces of PyTorch and JAX",
    "captures": "graphs that were captured: what their replays ran",
    "extensions": "what users add: categories, models, tables, replayers",
    "perf": "performance models of ops",
    "categories": "rules that sort ops and kernels",
    "op_table": "what is known of an op by its name",
    "graph": "columns, call forest, launches, owners, steps, classes; traversals; windows; sets of traces",
    "execution": "execution traces: their columns, tensors, and the join with a graph",
    "hlo": "programs of XLA: instructions, origins, work",
    "cypher": "the same questions in Cypher; stands beside the package as cypher/",
    "schema": "kinds, edges, properties, units",
    "registry": "every table: where it is computed, which report shows it",
    "tables": "Table, Column, TableSchema; how tables and names are printed",
    "output": "files replaced as a whole or not at all",
    "errors": "every error a user can meet",
    "utils": "processes, text from a trace, suggestions",
}
"""What each module of the package is for."""


class Layer(NamedTuple):
    """Modules side by side; `apart` if none of them may import another."""

    modules: tuple[str, ...]
    apart: bool


def layers() -> list[Layer]:
    """The layers of the import contract, the uppermost first, with the modules that there are."""
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    contract = next(c for c in settings["tool"]["importlinter"]["contracts"] if c.get("exhaustive"))
    found = []
    for line in contract["layers"]:
        modules = tuple(name for name in re.findall(r"\b[a-z]\w+", line) if _has_content(name))
        if modules:
            found.append(Layer(modules, "|" in line))
    return found


def _has_content(module: str) -> bool:
    place = CHECKOUT / "tracelens_graph" / module
    return place.with_suffix(".py").exists() or any(not p.name.startswith("__") for p in place.glob("*"))


class Box(NamedTuple):
    """A node of the example: place of its middle, kind, name."""

    x: int
    y: int
    kind: Kind
    name: str


BOXES = {
    "step": Box(95, 225, Kind.Step, "ProfilerStep#4"),
    "module": Box(95, 75, Kind.Module, "nn.Module: Linear_3"),
    "linear": Box(300, 75, Kind.Op, "aten::linear"),
    "addmm": Box(505, 75, Kind.Op, "aten::addmm"),
    "backward": Box(785, 75, Kind.Op, "AddmmBackward0"),
    "launch": Box(505, 225, Kind.RuntimeCall, "cudaLaunchKernel"),
    "gemm": Box(785, 225, Kind.Kernel, "sm90_gemm_bf16 ..."),
    "next": Box(785, 325, Kind.Kernel, "vectorized_elem..."),
}
ARROWS = (
    ("module", "linear", "CALLS"),
    ("linear", "addmm", "CALLS"),
    ("addmm", "launch", "CALLS"),
    ("launch", "gemm", "LAUNCHES"),
    ("gemm", "addmm", "CHARGED_TO"),
    ("addmm", "backward", "HAS_BACKWARD"),
    ("gemm", "next", "NEXT_ON_STREAM"),
    ("linear", "step", "DURING"),
)
assert {edge for *_, edge in ARROWS} <= {edge.name for edge in EVENT_EDGES}

_WIDTH = 880
_BOX_WIDTH, _BOX_HEIGHT = 150, 50
_FILL = {Kind.Kernel: "#fde8d7", Kind.Step: "#eeeeee", Kind.Module: "#e3f0e0"}


def layers_picture() -> str:
    """Layers from top to bottom; each may import what is below it."""
    shapes: list[str] = []
    top = 16
    for modules, apart in layers():
        if shapes:
            shapes.append(arrow((_WIDTH / 2, top - 26), (_WIDTH / 2, top - 4)))
        gap = 10 if apart else 0
        width = (_WIDTH - 32 - gap * (len(modules) - 1)) / len(modules)
        lines = {module: textwrap.wrap(PURPOSE[module], int(width / 6.2)) for module in modules}
        height = 32 + 14 * max(map(len, lines.values()))
        for place, module in enumerate(modules):
            left = 16 + place * (width + gap)
            shapes.append(rectangle(left, top, width, height, "#e8eef7", 0))
            shapes.append(text(left + width / 2, top + 20, module, 14, bold=True))
            shapes += [text(left + width / 2, top + 37 + 14 * n, line, 11) for n, line in enumerate(lines[module])]
        top += height + 26
    return svg(top - 10, shapes)


def graph_picture() -> str:
    """One module call down to its kernel, with the edges around it."""
    return svg(390, _graph_shapes())


def _graph_shapes() -> Iterator[str]:
    yield text(300, 28, "a thread: host events nest by time", 12)
    yield text(785, 28, "the backward thread", 12)
    yield text(785, 378, "a stream of the device", 12)
    for source, target, edge in ARROWS:
        a, b = BOXES[source], BOXES[target]
        begin, end = _border(a, b), _border(b, a)
        yield arrow(begin, end)
        x, y = (begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2
        yield rectangle(x - 3.4 * len(edge), y - 17 if a.y == b.y else y - 8, 6.8 * len(edge), 14, "white", 0, "none")
        yield text(x, y - 6 if a.y == b.y else y + 3, edge, 10)
    for box in BOXES.values():
        left, top = box.x - _BOX_WIDTH / 2, box.y - _BOX_HEIGHT / 2
        yield rectangle(left, top, _BOX_WIDTH, _BOX_HEIGHT, _FILL.get(box.kind, "#e8eef7"), 8)
        yield text(box.x, box.y - 4, box.kind.name, 13, bold=True)
        yield text(box.x, box.y + 14, box.name, 11)


def _border(box: Box, towards: Box) -> tuple[float, float]:
    """Where the line between the middles of two boxes leaves the first."""
    dx, dy = towards.x - box.x, towards.y - box.y
    scale = min(_BOX_WIDTH / 2 / abs(dx) if dx else 9, _BOX_HEIGHT / 2 / abs(dy) if dy else 9)
    return box.x + dx * scale, box.y + dy * scale


def svg(height: int, shapes: Iterable[str], width: int = _WIDTH) -> str:
    """A picture."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="Helvetica, Arial, sans-serif">\n'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>\n'
        f'<rect width="{width}" height="{height}" fill="white"/>\n'
        + "".join(f"{shape}\n" for shape in shapes)
        + "</svg>\n"
    )


def rectangle(x: float, y: float, width: float, height: float, fill: str, round_: int, stroke: str = "#8aa0bd") -> str:
    """A rectangle with round corners."""
    size = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {size} rx="{round_}" fill="{fill}" stroke="{stroke}"/>'


def text(x: float, y: float, words: str, size: int, bold: bool = False) -> str:
    """Words around a place."""
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="middle"{weight}>{escape(words)}</text>'


def arrow(begin: tuple[float, float], end: tuple[float, float]) -> str:
    """A line with a tip."""
    places = f'x1="{begin[0]:.1f}" y1="{begin[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"'
    return f'<line {places} stroke="#555" marker-end="url(#tip)"/>'


if __name__ == "__main__":
    pictures = DOCS / "pictures"
    sys.exit(publish({pictures / "layers.svg": layers_picture(), pictures / "graph.svg": graph_picture()}))
