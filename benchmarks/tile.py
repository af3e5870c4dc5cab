"""Lay copies of a real Kineto trace one after the other, to see how cost grows with size.

Every copy is a later stretch of the same job: its times, and all numbers by which its events refer to
one another, are moved past those of the copy before it. So N copies hold N times the events, links and
GPU time of the original, on the same threads and streams.

    python benchmarks/tile.py trace.json.gz tiled.json --copies 20
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path
from typing import Any, BinaryIO

import orjson

# Numbers of one family name the same things, so they move by the same distance.
FAMILIES = (
    ("id", "correlation", "wait_on_cuda_event_record_corr_id"),
    ("External id",),
    ("Record function id",),
    ("Sequence number",),
    ("Python id", "Python parent id"),
    ("Ev Idx",),
    ("Seq",),
)
FAMILY_OF = {key: family for family, keys in enumerate(FAMILIES) for key in keys}
PAUSE_NS = 1_000_000

# Strings that no trace holds, where the text of an event gets its moving numbers.
TIME, LINK = "\0time", "\0link"
SLOTS = {orjson.dumps(TIME): b"%d.%03d", orjson.dumps(LINK): b"%d"}


class Tile:
    """The moving events of a trace as one text with slots, and the numbers that go into the slots.

    Times are exact nanoseconds where the trace's are below 2**43 us, as `ts` is read as a float.
    """

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self.numbers: list[tuple[int, int | None]] = []  # value, its family (None: a time)
        text = b",\n".join(orjson.dumps(self._with_slots(event)) for event in events)
        text = text.replace(b"%", b"%%")
        for mark, slot in SLOTS.items():
            text = text.replace(mark, slot)
        self.text = text
        starts = [value for value, family in self.numbers if family is None]
        ends = [_ns(event["ts"]) + _ns(event.get("dur", 0)) for event in events]
        self.span = max(ends) - min(starts) + PAUSE_NS
        self.steps = [
            max((value for value, family in self.numbers if family == wanted), default=0) + 1
            for wanted in range(len(FAMILIES))
        ]

    def _with_slots(self, event: dict[str, Any]) -> dict[str, Any]:
        """A copy of the event with its numbers taken out, in the order in which they are written."""
        slotted = {}
        for key, value in event.items():
            if key == "ts":
                slotted[key] = self._take(_ns(value), None, TIME)
            elif key == "args" and isinstance(value, dict):
                slotted[key] = {name: self._link(name, number) for name, number in value.items()}
            else:
                slotted[key] = self._link(key, value)
        return slotted

    def _link(self, key: str, value: Any) -> Any:
        # Zero and negative numbers link nothing.
        linked = key in FAMILY_OF and isinstance(value, int) and value > 0
        return self._take(value, FAMILY_OF[key], LINK) if linked else value

    def _take(self, value: int, family: int | None, mark: str) -> str:
        self.numbers.append((value, family))
        return mark

    def copy(self, index: int) -> bytes:
        """The text of copy number `index`; number 0 is the original."""
        filled: list[int] = []
        for value, family in self.numbers:
            if family is None:
                filled += divmod(value + index * self.span, 1000)
            else:
                filled.append(value + index * self.steps[family])
        return self.text % tuple(filled)


def _ns(microseconds: float) -> int:
    return round(microseconds * 1000)


def tile(source: Path, target: BinaryIO, copies: int) -> None:
    """Write `copies` copies of the trace `source` (.json or .json.gz) as one uncompressed trace."""
    data = source.read_bytes()
    trace = orjson.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    events = trace.pop("traceEvents")
    moves = [event.get("ph") != "M" and "ts" in event for event in events]
    fixed = [event for event, moving in zip(events, moves, strict=True) if not moving]
    tiled = Tile([event for event, moving in zip(events, moves, strict=True) if moving])

    head = orjson.dumps(trace | {"traceEvents": []}).removesuffix(b"]}")
    target.write(head + b"\n")
    for event in fixed:
        target.write(orjson.dumps(event) + b",\n")
    for index in range(copies):
        target.write((b",\n" if index else b"") + tiled.copy(index))
    target.write(b"\n]}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--copies", type=int, default=20)
    options = parser.parse_args()
    with options.target.open("wb") as target:
        tile(options.source, target, options.copies)


if __name__ == "__main__":
    main()
