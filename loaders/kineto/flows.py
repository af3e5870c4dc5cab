"""A second pass over a trace for its launch arrows, made only where correlation ids do not serve."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Raw

from tracelens_graph.graph.flows import FlowEnds
from tracelens_graph.loaders.kineto.records import CATEGORIES, Family, FlowEvent
from tracelens_graph.loaders.kineto.repair import repair_events
from tracelens_graph.loaders.kineto.times import digits_to_ns
from tracelens_graph.utils.arrays import Numbering

_RAW_LIST = msgspec.json.Decoder(list[Raw])
_KEYS = msgspec.json.Decoder(dict[str, Raw])
_FLOW = msgspec.json.Decoder(FlowEvent)


class FlowCollector:
    """Takes chunks in file order, as `Collector` does, and keeps both ends of every launch arrow."""

    def __init__(self, threads: Numbering) -> None:
        self.threads = threads
        self.ends = FlowEnds()

    def chunk(self, text: memoryview, offset: int) -> None:
        """Take the launch flows of a chunk."""
        self._take(_RAW_LIST.decode(text))

    def broken(self, text: bytes, offset: int, last: bool) -> bytes | None:
        """Take the launch flows of a stretch that needs repair."""
        repaired = repair_events(text, last=last)
        self._take(map(Raw, repaired.events))
        return repaired.tail

    def forget(self) -> None:
        """Forget all that was taken."""
        self.ends = FlowEnds()

    def _take(self, raws: Iterable[Raw]) -> None:
        for raw in raws:
            try:
                flow = _FLOW.decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            if CATEGORIES.get(flow.cat, (None,))[0] is Family.launch_flow and flow.ph in ("s", "f", "t"):
                time = _KEYS.decode(raw)["ts"]
                thread = self.threads[flow.pid, flow.tid]
                self.ends.add((flow.ph,), (flow.id,), (thread,), (int(digits_to_ns([time])[0]),))
