"""A snapshot of memory beside a trace: what it holds, and a source of the trace with further events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from tracelens_graph.errors import NotATraceError
from tracelens_graph.loaders.memory_snapshot.snapshot import Change, Entry, history
from tracelens_graph.loaders.reports import Pieces, checked
from tracelens_graph.loaders.sources import Source

_AT_ONCE = 1 << 20


def read_snapshot(source: Source) -> tuple[list[Entry], list[list[Change]]]:
    """The segments in a snapshot of PyTorch's CUDA allocator, and of each device what it allocated and released.

    Raises:
        NotATraceError: it is something else, or a pickle that does more than hold plain values.
        TraceError: it is damaged.
    """
    if source.packing != "pickle":
        raise NotATraceError(f"{source.name}: is no snapshot of torch.cuda.memory._dump_snapshot()")
    with source.raw() as stream:
        (found,) = checked(history, b"".join(iter(lambda: stream.read(_AT_ONCE), b"")), source.name)
    return found


class WithEvents(Source):
    """A source with further events behind its own.

    Args:
        of: the source.
        at: where its last event ends.
        events: the others, each as JSON.
    """

    def __init__(self, of: Source, at: int, events: Iterable[bytes]) -> None:
        self.__dict__.update(of.__dict__)
        self._of, self._at, self._events, self.packing = of, at, b"".join(b",\n" + one for one in events), "joined"

    def open(self) -> BinaryIO:
        """A fresh stream of the decompressed bytes; raises as that of the source."""
        return Pieces(self._pieces(self._of.open()))

    def _pieces(self, stream: BinaryIO) -> Iterator[bytes]:
        with stream:
            left = self._at
            while left and (some := stream.read(min(left, _AT_ONCE))):
                left -= len(some)
                yield some
            yield self._events
            yield from iter(lambda: stream.read(_AT_ONCE), b"")
