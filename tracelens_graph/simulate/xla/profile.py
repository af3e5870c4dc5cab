"""A simulated run as XProf writes it: a protocol buffer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tracelens_graph.simulate import kernels
from tracelens_graph.simulate.xla.program import Builder, Options, block, double, number
from tracelens_graph.simulate.xla.run import PROGRAM, Runner, Span
from tracelens_graph.simulate.xla.training import NAME

START_NS = 1_751_410_836_000_000_000
"""When the profile began, ns since 1970."""


class Plane:
    """A plane that is being written."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lines: list[bytes] = []
        self._stats: list[bytes] = []
        self._metadata: list[bytes] = []
        self._events: dict[str, int] = {}
        self._names: dict[str, int] = {}

    def add_stat(self, name: str, value: int | str | float) -> None:
        """A statistic of the plane."""
        self._stats.append(block(6, self._stat(name, value)))

    def add_program(self, id: int, name: str, proto: bytes) -> None:
        """A program, which stands among the names of events."""
        written = (
            number(1, id) + block(2, name) + block(5, number(1, self._code(self._names, "Hlo Proto")) + block(6, proto))
        )
        self._metadata.append(block(4, number(1, id) + block(2, written)))

    def add_line(self, id: int, name: str, spans: Iterable[Span], uid: int) -> int:
        """A line; its events get uids from `uid` on. Gives the next one."""
        ordered = sorted(spans, key=lambda span: (span.start, -span.end))
        start = ordered[0].start if ordered else 0
        content = [number(1, id), block(2, name), number(3, start)]
        for place, span in enumerate(ordered):
            span.uid = uid + place
            stats = b"".join(block(4, self._stat(key, value)) for key, value in span.stats.items())
            head = number(1, self._code(self._events, span.name))
            times = number(2, (span.start - start) * 1000) + number(3, (span.end - span.start) * 1000)
            content.append(block(4, head + times + stats))
        self._lines.append(block(3, b"".join(content)))
        return uid + len(ordered)

    def written(self) -> bytes:
        """The plane as a field of the profile."""
        events, names = (
            [block(field, number(1, id) + block(2, number(1, id) + block(2, name))) for name, id in codes.items()]
            for field, codes in ((4, self._events), (5, self._names))
        )
        parts = (*self._lines, *events, *self._metadata, *names, *self._stats)
        return block(1, b"".join((block(2, self._name), *parts)))

    def _code(self, codes: dict[str, int], name: str) -> int:
        return codes.setdefault(name, len(codes) + 1)

    def _stat(self, name: str, value: int | str | float) -> bytes:
        head = number(1, self._code(self._names, name))
        if isinstance(value, str):
            # Texts that many events share are written once, among the names of statistics.
            return head + (number(7, self._code(self._names, value[1:])) if value[:1] == "&" else block(5, value))
        return head + (number(3, value) if isinstance(value, int) else double(2, value))


def profile(options: Options, program: Builder, run: Runner) -> bytes:
    """The profile as a file; gives all events of `run` their uids."""
    planes, uid = [], 0
    for device in range(options.devices):
        plane = Plane(f"/device:GPU:{device}")
        for (name, id), spans in _by_line(span for span in run.gpu if span.device == device).items():
            uid = plane.add_line(id, name, spans, uid)
        for stat, value in _PROPERTIES.items():
            plane.add_stat(stat, value)
        planes.append(plane)
    host = Plane("/host:CPU")
    for (name, id), spans in _by_line(run.host).items():
        uid = host.add_line(id, name, spans, uid)
    programs = Plane("/host:metadata")
    programs.add_program(PROGRAM, f"{NAME}({PROGRAM})", program.proto())
    task = Plane("Task Environment")
    task.add_stat("profile_start_time", START_NS)
    task.add_stat("profile_stop_time", START_NS + max(span.end for span in run.host))
    return b"".join(plane.written() for plane in (*planes, host, programs, task))


_PROPERTIES: Mapping[str, int | str] = {
    "device_vendor": "Nvidia",
    "core_count": kernels.SMS,
    "memory_size": int(kernels.DEVICE_PROPERTIES["totalGlobalMem"]),
    "compute_cap_major": 9,
    "compute_cap_minor": 0,
}


def _by_line(spans: Iterable[Span]) -> dict[tuple[str, int], list[Span]]:
    found: dict[tuple[str, int], list[Span]] = {}
    for span in spans:
        found.setdefault(span.line, []).append(span)
    return found
