"""Pieces of the traces of several ranks as one trace for a viewer, on one clock.

What separates events of one rank from those of another in a file of all is made anew: every process and device gets a
number of its own, and so do the ids by which launches and arrows find their ends. Threads, streams and all other
arguments stay as they are. The profiler's own marks stay behind: they span the whole recording.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, BinaryIO

import msgspec
import numpy as np
from msgspec import Raw

from tracelens_graph.graph.flows import DEPENDENCY_ID
from tracelens_graph.output.files import GENERATOR
from tracelens_graph.schema import DEVICE_KINDS
from tracelens_graph.stores.cut import Piece, entries, times_ns, write_entries
from tracelens_graph.utils.arrays import Rows
from tracelens_graph.utils.texts import microseconds

ARROW = "collective"
"""Category of the arrows between the ranks."""

_PAIRED = ("s", "t", "f", "b", "n", "e")
"""Phases of entries that an id joins: ends of arrows, and of asynchronous slices."""

_RENAMED = (b'"process_name"', b'"process_sort_index"')
_IDS = {
    "correlation": "correlation",
    "wait_on_cuda_event_record_corr_id": "correlation",
    "External id": "external",
    "external id": "external",
}
"""Arguments that are ids of a rank -> what they are ids of."""

_DEVICES = ("device", "Device Id")
_NO_IDS = (0, -1)
_MOST_PROCESSES = 1000
"""Processes of a rank that sort indices leave room for."""

_ENTRY = msgspec.json.Decoder(dict[str, Raw])


@dataclass(frozen=True, eq=False)
class RankPiece:
    """The piece of one rank.

    Attributes:
        name: what its processes are called, such as `rank 3`.
        piece: the piece.
        clock: puts times of the trace, in ns from its start, on the common clock.
    """

    name: str
    piece: Piece
    clock: Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Joined:
    """Kernels that an arrow leads through from rank to rank.

    Attributes:
        name: name of the arrow.
        kernels: place of the piece, row of the kernel, and when it began on the common clock, in the order of that.
    """

    name: str
    kernels: Sequence[tuple[int, int, int]]


def write_ranks(
    pieces: Sequence[RankPiece],
    joined: Iterable[Joined],
    file: BinaryIO,
    *,
    packed: bool = False,
    epoch_ns: int = 0,
    about: Mapping[str, Any] | None = None,
    beside: Callable[[int, int], Iterable[bytes]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Write pieces of several ranks as one trace, which our loader and every viewer of Chrome traces read.

    Times count from the first entry of the file.

    Args:
        pieces: in the order in which their processes are shown.
        joined: kernels that arrows join.
        packed: whether to compress it (gzip).
        epoch_ns: time since 1970 at which the common clock is 0; 0 where it is not known.
        about: what to say of the file in its `otherData`.
        beside: makes entries to stand behind those of the ranks, of the time on the common clock, ns, from which times
            of the file count, and the first of the numbers that no process of the ranks has.
        progress: called with pieces read and pieces in all.

    Returns:
        Number of entries written.

    Raises:
        AnalysisError, ChangedTraceError: as `cut.write_piece`, of any of the traces.
    """
    ids = _Numbers()
    ranks = []
    for place, piece in enumerate(pieces):
        ranks.append(_Rank(piece, place, ids))
        if progress:
            progress(place + 1, len(pieces))
    first = min((int(rank.times.min()) for rank in ranks if len(rank.times)), default=0)
    texts = [text for rank in ranks for text in rank.texts(first)]
    for number, one in enumerate(joined):
        texts += _arrow(one, ids.of("arrow", "joined", number), ranks, first)
    texts += [text for rank in ranks for text in rank.names()]
    if beside is not None:
        texts += beside(first, 1 + max((number for rank in ranks for number in rank.numbers()), default=0))
    top = {
        "generator": GENERATOR,
        **_common([rank.core.info.metadata for rank in ranks]),
        "deviceProperties": [device for rank in ranks for device in rank.devices()],
        **({"baseTimeNanoseconds": epoch_ns + first} if epoch_ns else {}),
        **({"otherData": dict(about)} if about else {}),
    }
    write_entries(texts, top, file, packed=packed)
    return len(texts)


class _Numbers:
    """New numbers for what has one in several files: different ones for all of them."""

    def __init__(self) -> None:
        self._found: dict[tuple[Hashable, ...], int] = {}
        self._next: dict[Hashable, Iterator[int]] = {}
        self._devices: dict[tuple[int, int], int] = {}

    def of(self, what: Hashable, *key: Hashable) -> int:
        """The number that something has among its like, from 1 on."""
        if (what, *key) not in self._found:
            self._found[what, *key] = next(self._next.setdefault(what, count(1)))
        return self._found[what, *key]

    def process(self, rank: int, pid: Hashable) -> int:
        """The number of a process of a rank that is no device: behind those of all devices, which are known by now."""
        return max(self._devices.values(), default=0) + self.of("process", rank, pid)

    def device(self, rank: int, device: int) -> int:
        """The number of a device of a rank: its own, if no other rank has it, else the next free one."""
        if (rank, device) not in self._devices:
            taken = set(self._devices.values())
            free = device if device not in taken else next(number for number in count() if number not in taken)
            self._devices[rank, device] = free
        return self._devices[rank, device]


class _Rank:
    """The entries of one rank, and what becomes of them.

    Attributes:
        core: the graph.
        times: when those entries are that have a time, on the common clock.
    """

    def __init__(self, rank: RankPiece, place: int, ids: _Numbers) -> None:
        self.core, self._rank, self._place, self._ids = rank.piece.core, rank, place, ids
        c, rows = self.core.columns, rank.piece.rows
        self._device_pids = self._processes(rows[np.isin(c.kind[rows], DEVICE_KINDS)])
        pids = self._processes(rows)
        self._entries = [
            entry
            for entry in map(_ENTRY.decode, entries(rank.piece))
            if "pid" in entry and msgspec.json.decode(entry["pid"]) in pids
        ]
        self._timed = [entry for entry in self._entries if "ts" in entry and _phase(entry) != "M"]
        self.times = self.common(times_ns(self.core, [entry["ts"] for entry in self._timed]))
        # Devices first, so that kernels stand close to those of the rank above.
        self._pids = sorted(pids, key=lambda pid: (pid not in self._device_pids, str(pid)))
        self._used = [device for device in np.unique(c.device[rows]).tolist() if device >= 0]
        for device in self._used:
            self.device(device)

    def _processes(self, rows: Rows) -> set[Any]:
        """The processes, as the trace calls them, that some rows are of."""
        return {self.core.threads[code][0] for code in np.unique(self.core.columns.thread[rows]).tolist()}

    def common(self, times: np.ndarray) -> np.ndarray:
        """Times of the trace on the common clock."""
        return self._rank.clock(times)

    def pid(self, pid: Any) -> int:
        """The number that a process has in the file of all ranks.

        Device annotations name their device by their process alone, so that of a device has its number.
        """
        if pid in self._device_pids and pid in self._used:
            return self.device(pid)
        return self._ids.process(self._place, pid)

    def device(self, device: int) -> int:
        """The number that a device has there."""
        return self._ids.device(self._place, device)

    def texts(self, first_ns: int) -> Iterator[bytes]:
        """The entries as they are in the file of all ranks, but for names of processes."""
        for entry, ns in zip(self._timed, (self.times - first_ns).tolist(), strict=True):
            entry["ts"] = Raw(microseconds(ns))
        for entry in self._entries:
            if _phase(entry) == "M":
                if bytes(entry.get("name", b"")) in _RENAMED:
                    continue
                entry.pop("ts", None)
            entry["pid"] = _raw(self.pid(msgspec.json.decode(entry["pid"])))
            if "id" in entry and _phase(entry) in _PAIRED:
                entry["id"] = _raw(self._arrow_id(bytes(entry.get("cat", b"")), entry["id"]))
            if "args" in entry:
                entry["args"] = self._arguments(entry["args"])
            yield msgspec.json.encode(entry)

    def names(self) -> Iterator[bytes]:
        """Metadata entries that name the processes, and put those of one rank below one another."""
        roles = ["GPU" if pid in self._device_pids else "host" for pid in self._pids]
        for at, (pid, role) in enumerate(zip(self._pids, roles, strict=True)):
            name = f"{self._rank.name} {role}" + (f" {pid}" if roles.count(role) > 1 else "")
            yield _metadata("process_name", self.pid(pid), name=name)
            yield _metadata("process_sort_index", self.pid(pid), sort_index=self._place * _MOST_PROCESSES + at)

    def numbers(self) -> list[int]:
        """The numbers that its processes have there."""
        return [self.pid(pid) for pid in self._pids]

    def devices(self) -> Iterator[dict[str, Any]]:
        """Properties of the devices that the piece has events of."""
        listed = self.core.info.metadata.get("deviceProperties")
        for device in listed if isinstance(listed, list) else []:
            if isinstance(device, dict) and device.get("id") in self._used:
                yield {**device, "id": self.device(device["id"])}

    def _arrow_id(self, category: bytes, number: Raw) -> int:
        old = _integer(number)
        of_kind = DEPENDENCY_ID if old is not None and old >= DEPENDENCY_ID else 0
        return of_kind + self._ids.of("arrow", self._place, category, bytes(number))

    def _arguments(self, text: Raw) -> Raw:
        try:
            arguments = _ENTRY.decode(text)
        except msgspec.DecodeError:  # not an object, so nothing in it is a number of ours
            return text
        for name, what in _IDS.items():
            old = _integer(arguments[name]) if name in arguments else None
            if old is not None and old not in _NO_IDS:
                arguments[name] = _raw(self._ids.of(what, self._place, old))
        for name in _DEVICES:
            old = _integer(arguments[name]) if name in arguments else None
            if old is not None and old in self._used:
                arguments[name] = _raw(self.device(old))
        return Raw(msgspec.json.encode(arguments))


def _arrow(joined: Joined, number: int, ranks: Sequence[_Rank], first_ns: int) -> Iterator[bytes]:
    """The ends of an arrow: it leads from the kernel that began first through all others to the one that began last."""
    last = len(joined.kernels) - 1
    for at, (place, row, start) in enumerate(joined.kernels):
        rank = ranks[place]
        pid, tid = rank.core.threads[rank.core.columns.thread[row]]
        end = {"ph": "s" if at == 0 else "f" if at == last else "t", "cat": ARROW, "name": joined.name, "id": number}
        where = {"pid": rank.pid(pid), "tid": tid, "ts": Raw(microseconds(start - first_ns))}
        yield msgspec.json.encode({**end, **where, **({"bp": "e"} if at == last else {})})


def _phase(entry: Mapping[str, Raw]) -> Any:
    return msgspec.json.decode(entry["ph"]) if "ph" in entry else None


def _metadata(what: str, pid: int, **args: Any) -> bytes:
    return msgspec.json.encode({"ph": "M", "name": what, "pid": pid, "tid": 0, "args": args})


def _common(metadata: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the metadata of all ranks agree on; of dictionaries the keys on which they do."""
    first, *others = metadata
    found: dict[str, Any] = {}
    for key, value in first.items():
        if key in ("generator", "baseTimeNanoseconds", "deviceProperties"):
            continue
        theirs = [other.get(key) for other in others]
        if isinstance(value, dict) and all(isinstance(one, dict) for one in theirs):
            found[key] = _common([value, *theirs])  # type: ignore[list-item]
        elif all(one == value for one in theirs):
            found[key] = value
    return found


def _integer(text: Raw) -> int | None:
    """A number that may stand in quotes; None where it is none."""
    try:
        return int(bytes(text).strip(b'"'))
    except ValueError:
        return None


def _raw(number: int) -> Raw:
    return Raw(b"%d" % number)
