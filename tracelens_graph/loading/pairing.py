"""Which execution trace belongs to which profiler trace of a set: known by process ids, ranks and names of files.

Only the beginnings of files are read. What is found here is proven when a pair is linked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from tracelens_graph.errors import TraceError
from tracelens_graph.graph.ranks import rank_in_name
from tracelens_graph.loaders.foreign import is_execution_trace
from tracelens_graph.loaders.sources import Source, is_stream
from tracelens_graph.utils.texts import file_name, stem

_ENOUGH_TO_TELL = 4096
_ENOUGH_TO_PAIR = 65536
_PID = re.compile(rb'"pid"\s*:\s*"?([0-9]{1,19})\b')
_RANK = re.compile(rb'"rank"\s*:\s*"?([0-9]{1,7})\b')
_SAME_PROCESS, _SAME_RANK, _SAME_NAME = 4, 2, 1


@dataclass(frozen=True)
class Paired:
    """The files of a set.

    Attributes:
        traces: those that are no execution traces.
        of_trace: path of a trace -> path of its execution trace.
        notes: a line on execution traces without a trace, if there are any.
    """

    traces: list[str]
    of_trace: Mapping[str, str]
    notes: list[str]


@dataclass(frozen=True)
class _Clues:
    file: str
    pids: frozenset[bytes]
    rank: int | None
    stem: str

    @classmethod
    def of(cls, file: str, head: bytes) -> _Clues:
        found = _RANK.search(head)
        rank = rank_in_name(file_name(file))
        if rank is None and found:
            rank = int(found[1])
        return cls(file, frozenset(_PID.findall(head)), rank, stem(file_name(file)))

    def score(self, other: _Clues) -> int:
        """How much speaks for one process; 0 where something speaks against it."""
        same_process = bool(self.pids & other.pids)
        if None not in (self.rank, other.rank) and self.rank != other.rank and not same_process:
            return 0
        same_rank = self.rank is not None and self.rank == other.rank
        return _SAME_PROCESS * same_process + _SAME_RANK * same_rank + _SAME_NAME * (self.stem == other.stem)


def is_execution_trace_file(file: str) -> bool:
    """Whether a file begins as an execution trace does; False where it cannot be read."""
    return is_execution_trace(_head(file, _ENOUGH_TO_TELL))


def execution_traces_alone(files: Sequence[str]) -> str:
    """What to do where all of several files are execution traces; empty if one of them is not, or there is one only."""
    if len(files) < 2 or not all(map(is_execution_trace_file, files)):
        return ""
    return (
        f"all {len(files):,} files are PyTorch execution traces, which have no times and no kernels: name the "
        "profiler's traces of the same ranks as well, by their folder or by the one above both"
    )


def paired(files: Sequence[str]) -> Paired:
    """The traces among some files, each with its execution trace if there is one among them.

    One trace and one execution trace are a pair whatever they are called. If there are execution traces alone, they are
    left as they are.
    """
    recorded = [file for file in files if is_execution_trace_file(file)]
    traces = [file for file in files if file not in set(recorded)]
    if not recorded or not traces:
        return Paired(list(files), {}, [])
    if len(recorded) == len(traces) == 1:
        return Paired(traces, {traces[0]: recorded[0]}, [])
    sides = [[_Clues.of(file, _head(file, _ENOUGH_TO_PAIR)) for file in side] for side in (traces, recorded)]
    of_trace = dict(_best(*sides))
    alone = [PurePath(file).name for file in recorded if file not in of_trace.values()]
    notes = [f"execution traces that belong to no trace: {', '.join(alone[:5])}" + ", …" * (len(alone) > 5)]
    return Paired(traces, of_trace, notes if alone else [])


def _best(traces: list[_Clues], recorded: list[_Clues]) -> Iterator[tuple[str, str]]:
    """Pairs for which most speaks, each file in one of them."""
    scores = [(-trace.score(other), i, j) for i, trace in enumerate(traces) for j, other in enumerate(recorded)]
    left, right = set(range(len(traces))), set(range(len(recorded)))
    for score, i, j in sorted(scores):
        if score and i in left and j in right:
            left.remove(i)
            right.remove(j)
            yield traces[i].file, recorded[j].file


def _head(file: str, size: int) -> bytes:
    """The first bytes of a file, unpacked; empty for a saved graph, a stream, and what cannot be read."""
    if file.endswith(".tlg") or is_stream(file):
        return b""
    try:
        source = Source(file, path=Path(file))
        if source.packing == "graph":
            return b""
        with source.open() as stream:
            return stream.read(size)
    except (OSError, TraceError):
        return b""
