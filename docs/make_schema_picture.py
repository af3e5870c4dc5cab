"""Draw docs/pictures/schema.svg: all labels and types of edges of a graph in a database, from the schema.

python docs/make_schema_picture.py            write the picture
python docs/make_schema_picture.py --check    change nothing; end with 1 if it is out of date
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

from make_pictures import arrow, rectangle, svg, text
from pages import DOCS, publish

from tracelens_graph.schema import CONTEXT_EDGES, CONTEXT_KINDS, EVENT_EDGES, EdgeType, Kind
from tracelens_graph.schema.database import KNOWLEDGE

_EVENT, _GPU, _CONTEXT, _KNOWLEDGE = "#e8eef7", "#fde8d7", "#eeeeee", "#e3f0e0"
_FRAME = (16, 40, 560, 970)
_WIDTH, _HEIGHT = 170, 46
_LONGEST = 44
"""Characters that there is room for beside the frame."""


class Box(NamedTuple):
    """Labels that are drawn as one box, and the place of its middle."""

    labels: tuple[str, ...]
    x: int
    y: int

    @property
    def is_event(self) -> bool:
        """Whether it stands for kinds of events."""
        return self.labels[0] in Kind.__members__

    @property
    def fill(self) -> str:
        """Its colour."""
        if self.is_event:
            return _GPU if "Kernel" in self.labels else _EVENT
        return _KNOWLEDGE if self.labels[0] in KNOWLEDGE else _CONTEXT


BOXES = (
    Box(("Module", "PythonFunction"), 140, 110),
    Box(("Op",), 140, 250),
    Box(("RuntimeCall",), 140, 400),
    Box(("SyncEvent",), 140, 560),
    Box(("Annotation", "Step"), 450, 110),
    Box(("Kernel", "Memcpy", "Memset"), 450, 400),
    Box(("MemoryEvent",), 475, 205),
    Box(("DeviceAnnotation", "Overhead"), 410, 490),
    Box(("Thread",), 830, 70),
    Box(("SubtreeClass",), 830, 155),
    Box(("Signature",), 830, 240),
    Box(("Category",), 830, 325),
    Box(("KernelName",), 830, 410),
    Box(("Stream",), 830, 510),
    Box(("Collective",), 830, 610),
    Box(("Tensor",), 830, 700),
    Box(("Storage",), 1080, 700),
    Box(("ModulePath",), 900, 790),
    Box(("Gap",), 900, 880),
    Box(("OddLayer",), 900, 970),
    Box(("CapturedGraph",), 1150, 880),
    Box(("Process",), 1080, 70),
    Box(("Program",), 1310, 198),
    Box(("Run",), 1310, 290),
    Box(("Trace",), 1080, 290),
    Box(("StepTime",), 1310, 400),
    Box(("Finding",), 1310, 490),
    Box(("ModulePlace",), 1310, 580),
    Box(("CollectiveKind",), 1310, 670),
    Box(("Device",), 1080, 510),
    Box(("ProcessGroup",), 1080, 610),
)
_OF = {label: box for box in BOXES for label in box.labels}
assert set(_OF) == set(Kind.__members__) | set(CONTEXT_KINDS)


def schema_picture() -> str:
    """Boxes for labels, arrows for types of edges; those from events to others begin at the frame."""
    return svg(1030, _shapes(), 1420)


def _shapes() -> Iterator[str]:
    yield rectangle(*_FRAME, "#fbfcfe", 14)
    yield text(_FRAME[0] + 100, 62, "Event (of one trace)", 13, bold=True)
    yield text(955, 30, "context of a trace (grey), knowledge that all traces share (green)", 13, bold=True)
    drawn: dict[tuple[Box | None, Box], list[str]] = {}
    for edge in EVENT_EDGES + CONTEXT_EDGES:
        for ends in _ends(edge):
            words = _words(edge) if ends[0] is None or edge.source == "event" else edge.name
            drawn.setdefault(ends, []).append(words)
    for (source, target), names in drawn.items():
        yield from _line(source, target, list(dict.fromkeys(names)))
    for box in BOXES:
        width = _width(box)
        yield rectangle(box.x - width / 2, box.y - _HEIGHT / 2, width, _HEIGHT, box.fill, 8)
        yield text(box.x, box.y + 4, " · ".join(box.labels), 13, bold=True)


def _ends(edge: EdgeType) -> Iterator[tuple[Box | None, Box]]:
    """Boxes that an arrow of this type joins; None is the frame around all events."""
    targets = list(dict.fromkeys(_OF[label] for label in edge.target.split("|")))
    if edge.source in CONTEXT_KINDS and targets[0].is_event:
        yield None, _OF[edge.source]
        return
    for target in targets if edge.name == "CALLS" else targets[:1]:  # a line to the first of several stands for all
        if edge.source == "event":
            yield (_OF["Module"] if target.is_event else None), target
            continue
        for source in dict.fromkeys(_OF[label] for label in edge.source.split("|")):
            if source.is_event and not target.is_event:
                yield None, target
            elif edge.name != "CALLS" or BOXES.index(target) == BOXES.index(source) + 1:
                yield source, target  # host events call one another; a line from each to the next stands for all


def _words(edge: EdgeType) -> str:
    if edge.source in CONTEXT_KINDS:
        return f"{edge.name} (leads back)"
    of = (
        "any event" if edge.source == "event" else ", ".join(s for s in edge.source.split("|") if s in Kind.__members__)
    )
    return f"{edge.name} ({of})"


def _width(box: Box) -> float:
    return max(_WIDTH, 8.4 * len(" · ".join(box.labels)) + 16)


def _line(source: Box | None, target: Box, names: list[str]) -> Iterator[str]:
    label = ", ".join(names)
    if source is None:
        if len(label) > _LONGEST:
            label = ", ".join(name.partition(" (")[0] for name in names)
        begin, end = (_FRAME[0] + _FRAME[2], target.y), (target.x - _width(target) / 2, target.y)
        yield arrow(begin, end)
        yield text((begin[0] + end[0]) / 2, target.y - 6, label, 9)
        return
    if source is target:
        words = f"{label} (among themselves)"
        if source.y == _OF["Op"].y:  # lines lead away above and below
            yield text(source.x + _width(source) / 2 + 2.8 * len(words), source.y + 3, words, 9)
        else:
            yield text(source.x, source.y + _HEIGHT / 2 + 14, words, 9)
        return
    begin, end = _border(source, target), _border(target, source)
    yield arrow(begin, end)
    part = 0.5 if begin[0] == end[0] or begin[1] == end[1] else 0.3  # beside what is written along straight lines
    x, y = begin[0] + part * (end[0] - begin[0]), begin[1] + part * (end[1] - begin[1])
    yield rectangle(x - 2.9 * len(label), y - 9, 5.8 * len(label), 13, "white", 0, "none")
    yield text(x, y + 1, label, 9)


def _border(box: Box, towards: Box) -> tuple[float, float]:
    dx, dy = towards.x - box.x, towards.y - box.y
    scale = min(_width(box) / 2 / abs(dx) if dx else 9, _HEIGHT / 2 / abs(dy) if dy else 9)
    return box.x + dx * scale, box.y + dy * scale


if __name__ == "__main__":
    sys.exit(publish({DOCS / "pictures" / "schema.svg": schema_picture()}))
