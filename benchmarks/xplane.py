"""Time and memory of loading a large JAX profile, beside protobuf's `FromString` on the same bytes.

The profile is made: two threads of Python with frames and launches, a third one with frames, a stream with a kernel for
each launch, and six statistics for every event. Each measure runs in a process of its own, on Linux: CPU seconds, and
the peak of its memory above what it had before it read anything. Loading makes the whole graph; protobuf, if it is
installed (`pip install protobuf`), gives nothing but messages.

    python benchmarks/xplane.py                       3.1 million events, 172 MB
    python benchmarks/xplane.py --events 300000
    python benchmarks/xplane.py --file PROFILE.xplane.pb
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from measure import printed

from tracelens_graph.simulate.xla.program import block, number

_START = """
import json, re, sys, time
def peak(): return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""
_END = """
print(json.dumps({"seconds": time.process_time() - begin, "bytes": peak() - base}))
"""

OURS = (
    _START
    + """
from tracelens_graph.loading.one import load_core
base, begin = peak(), time.process_time()
core = load_core(sys.argv[1])
"""
    + _END
)

PROTOBUF = (
    _START
    + """
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
file = descriptor_pb2.FileDescriptorProto(name="x.proto", package="x", syntax="proto3")
FIELD = descriptor_pb2.FieldDescriptorProto
TYPES = {"i": FIELD.TYPE_INT64, "u": FIELD.TYPE_UINT64, "s": FIELD.TYPE_STRING, "b": FIELD.TYPE_BYTES,
         "d": FIELD.TYPE_DOUBLE}
MESSAGES = {
    "Stat": "name:i:1 d:d:2 u:u:3 i:i:4 s:s:5 b:b:6 r:u:7",
    "Event": "name:i:1 offset:i:2 duration:i:3 stats:Stat*:4 count:i:5",
    "Line": "id:i:1 name:s:2 start:i:3 events:Event*:4 display:s:11",
    "Metadata": "id:i:1 name:s:2 display:s:4 stats:Stat*:5",
    "StatName": "id:i:1 name:s:2",
    "Metadatas": "key:i:1 value:Metadata:2",
    "StatNames": "key:i:1 value:StatName:2",
    "Plane": "id:i:1 name:s:2 lines:Line*:3 events:Metadatas*:4 names:StatNames*:5 stats:Stat*:6",
    "Space": "planes:Plane*:1",
}
for name, fields in MESSAGES.items():
    message = file.message_type.add(name=name)
    for text in fields.split():
        called, kind, place = text.split(":")
        field = message.field.add(name=called, number=int(place), label=3 if kind.endswith("*") else 1)
        if kind.rstrip("*") in MESSAGES:
            field.type, field.type_name = FIELD.TYPE_MESSAGE, ".x." + kind.rstrip("*")
        else:
            field.type = TYPES[kind]
pool = descriptor_pool.DescriptorPool()
pool.Add(file)
space = message_factory.GetMessageClass(pool.FindMessageTypeByName("x.Space"))
content = open(sys.argv[1], "rb").read()
base, begin = peak(), time.process_time()
read = space.FromString(content)
"""
    + _END
)

FRAMES, FUSIONS = 300, 50
_NAMES = (*(f"$file{i % 40}.py:{i} f{i}" for i in range(FRAMES)), "", *(f"fusion.{i}" for i in range(FUSIONS)))
_STATS = {
    1: "correlation_id", 2: "hlo_op", 3: "program_id", 4: "_pt", 5: "_p", 6: "device_id", 7: "tf_op",
    8: "kernel_details", 9: "hlo_module", **{100 + i: f"fusion.{i}" for i in range(FUSIONS)},
}  # fmt: skip


def _stat(name: int, value: int, field: int = 3) -> bytes:
    return block(4, number(1, name) + number(field, value))


_TOLD = _stat(7, 100, 7) + _stat(9, 101, 7)


def _frame(i: int, start_ps: int) -> bytes:
    stats = _stat(4, 3) + _stat(5, i) + _stat(6, 53022) + _TOLD + _stat(8, 102, 7)
    return block(4, number(1, 1 + i % FRAMES) + number(2, start_ps) + number(3, 900_000) + stats)


def _of_fusion(i: int, start_ps: int, duration_ps: int, correlation: int, more: bytes) -> bytes:
    stats = _stat(1, correlation) + _stat(2, 100 + i % FUSIONS, 7) + _stat(3, 17) + _TOLD + more
    return block(4, number(1, 302 + i % FUSIONS) + number(2, start_ps) + number(3, duration_ps) + stats)


def _plane(name: str, lines: Iterator[bytes]) -> bytes:
    metadata = b"".join(
        block(4, number(1, i) + block(2, number(1, i) + block(2, name))) for i, name in enumerate(_NAMES, 1)
    )
    names = b"".join(block(5, number(1, i) + block(2, number(1, i) + block(2, name))) for i, name in _STATS.items())
    return block(1, block(2, name) + b"".join(block(3, line) for line in lines) + metadata + names)


def made(events: int) -> bytes:
    """A profile of so many events: half of them on two threads, a quarter each on a third one and on the device."""
    each = events // 8

    def threads() -> Iterator[bytes]:
        for thread in range(2):
            pairs = (
                _frame(i, i * 1_000_000)
                + _of_fusion(i, i * 1_000_000 + 1000, 500_000, thread * each + i + 1, _stat(6, 53022))
                for i in range(each)
            )
            yield number(1, 5 + thread) + block(2, f"python{thread}") + number(3, 5000) + b"".join(pairs)
        frames = (_frame(i, i * 1_000_000) for i in range(events - 6 * each))
        yield number(1, 9) + block(2, "python9") + number(3, 5000) + b"".join(frames)

    def stream() -> Iterator[bytes]:
        kernels = (_of_fusion(i % each, (i + 1) * 1_000_000, 400_000, i + 1, _stat(8, 101, 7)) for i in range(2 * each))
        yield number(1, 2) + block(2, "Stream #2") + number(3, 6000) + b"".join(kernels)

    return _plane("/device:GPU:0", stream()) + _plane("/host:CPU", threads())


def measured(snippet: str, file: Path, runs: int) -> tuple[float, float]:
    """Median seconds and bytes of a snippet that loads a file."""
    found: list[dict[str, Any]] = [printed(snippet, str(file)) for _ in range(runs)]
    seconds, size = (statistics.median(one[key] for one in found) for key in ("seconds", "bytes"))
    return seconds, size


def main() -> None:
    """Print the measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=3_100_000)
    parser.add_argument("--file", type=Path, help="load this profile instead of one that is made")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = given.file
        if file is None:
            file = Path(folder) / "made.xplane.pb"
            file.write_bytes(made(given.events))
        size = file.stat().st_size
        print(f"profile       {size / 1e6:.0f} MB")
        seconds, taken = measured(OURS, file, given.runs)
        print(f"load          {seconds:.2f} s CPU, {taken / 1e6:.0f} MB: {taken / size:.2f} times the file")
        if find_spec("google") is None or find_spec("google.protobuf") is None:
            print("FromString    protobuf is not installed")
            return
        other, theirs = measured(PROTOBUF, file, given.runs)
        print(f"FromString    {other:.2f} s CPU, {theirs / 1e6:.0f} MB: {theirs / size:.2f} times the file")
        print(f"ratio         {seconds / other:.2f} of its time, {taken / theirs:.2f} of its memory")


if __name__ == "__main__":
    main()
