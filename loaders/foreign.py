"""Files that are no PyTorch trace, known by their content: what each is, and what to do with it.

Messages continue `FILE: `. A file is known by its first bytes, after decompression; only Nsight Systems' own format,
which NVIDIA does not document, is known by its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from tracelens_graph.errors import ExecutionTraceError, NotATraceError

_RECORD = "record one with torch.profiler and export_chrome_trace"
_EXPORTED = f"tracelens-graph reads PyTorch's own traces: {_RECORD}"
_ANYWAY = "--generic reads its events as functions of the host"
_JAX_TOO = f"tracelens-graph reads profiles of JAX (*.xplane.pb) and PyTorch's own traces: {_RECORD}"

_AS_JSON = "tracelens-graph reads what rocprofv3 writes with --output-format json or rocpd"
_AS_SQLITE = "tracelens-graph reads what this writes: nsys export --type sqlite"
_NSYS = "is a report of Nsight Systems"
_ROCPROF = "of AMD's rocprof"
IS_XPLANE = "is a JAX/XLA profile (XPlane protocol buffer), not a trace of PyTorch's profiler"
NO_EVENTS = f"is a JSON list without events, not a trace; {_EXPORTED}"
_PERFETTO = f"is a Perfetto trace (protocol buffer); ui.perfetto.dev opens it; {_AS_JSON}; {_EXPORTED}"
_PLANES = re.compile(rb"/(?:host:|device:(?:GPU|TPU))")

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "is packed twice, the inner file with gzip: unpack it once"),
    (b"\x28\xb5\x2f\xfd", "is packed twice, the inner file with zstd: unpack it once"),
    (b"PK\x03\x04", "is packed twice, the inner file as a zip archive: unpack it once"),
    (
        b"version https://git-lfs",
        "is a Git LFS pointer, not the file it stands for: fetch that with git lfs pull",
    ),
    (b"NVR\0", f"is a report of Nsight Compute; ncu-ui opens it; {_EXPORTED}"),
    (b"%PDF", "is a PDF document, not a profiler trace in JSON"),
    (b"\x89PNG", "is a PNG picture, not a profiler trace in JSON"),
    (b"\x7fELF", "is a program, not a profiler trace in JSON"),
    (b"PAR1", "is a Parquet file, not a profiler trace in JSON"),
    (b"\x80\x04", "is a Python pickle, not a profiler trace in JSON"),
    (b"\x80\x05", "is a Python pickle, not a profiler trace in JSON"),
    (b"BZh", "is a bzip2 archive: unpack it first"),
    (b"\xfd7zXZ\x00", "is an xz archive: unpack it first"),
    (b"<", "is an HTML or XML page, not a profiler trace in JSON"),
)

_HEADERS = (
    ({"kernel_name", "start_timestamp"}, f"is a CSV table {_ROCPROF} (rocprofv3); {_AS_JSON}"),
    ({"kind", "function", "start_timestamp"}, f"is a CSV table {_ROCPROF} (rocprofv3); {_AS_JSON}"),
    ({"kernelname", "gpu-id"}, f"is a CSV table {_ROCPROF}; {_EXPORTED}"),
    ({"name", "calls", "totaldurationns"}, f"is a CSV table {_ROCPROF}; {_EXPORTED}"),
    ({"start (ns)", "duration (ns)"}, f"is a CSV table of nsys stats; {_AS_SQLITE}"),
    ({"time (%)", "total time (ns)"}, f"is a CSV table of nsys stats; {_AS_SQLITE}"),
)
"""Columns, in small letters -> whose table it is."""

_TAR_MARK, _TAR_PLACE = b"ustar", 257
_WIDE = {
    "UTF-32": re.compile(rb"\xff\xfe\0\0|\0\0\xfe\xff|[{\[]\0\0\0|\0\0\0[{\[]"),
    "UTF-16": re.compile(rb"\xff\xfe|\xfe\xff|[{\[]\0[^\0]\0|\0[{\[]\0[^\0]"),
}
"""Encodings with more than a byte for each character -> how a JSON text in it begins; the first that fits counts."""

_SUFFIXES = {
    ".gz": "a gzip file",
    ".zst": "a zstd file",
    ".zip": "a zip archive",
    ".tlg": "a saved graph",
    ".sqlite": "an SQLite database",
    ".rpd": "an SQLite database",
}
"""End of a name -> what the file should be."""

_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1f\x80-\xff]")
_NSYS_NAMES = (".nsys-rep", ".qdrep", ".qdstrm")

_JAX = "JAX or TensorFlow"
_BESIDE_XPLANE = "the .xplane.pb that JAX writes beside it holds all that was recorded, and can be read"

_OF_JAX = re.compile(r"/(?:device|host):|TensorFlow|XLA")
"""Beginnings of names of processes in the traces that JAX and TensorFlow write for viewers."""

IS_EXECUTION_TRACE = "is a PyTorch execution trace, which has no times and no kernels, not a profiler trace"


def not_a_trace(name: str, found: str, head: bytes) -> NotATraceError:
    """The error for a JSON object without an event list.

    Args:
        name: name of the file.
        found: what it is, continuing `FILE: `.
        head: its beginning.
    """
    return (ExecutionTraceError if is_execution_trace(head) else NotATraceError)(f"{name}: {found}")


def what_is(head: bytes, name: str, *, unpacked: bool = False) -> str:
    """What a file is that does not begin as JSON does.

    Args:
        head: its first bytes, at best `sources.HEAD` of them.
        name: its name.
        unpacked: whether the bytes are what a compressed file of that name holds.
    """
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text:
        return "begins with white space only, not a trace"
    if head.startswith(b"SQLite format 3\0"):
        return "is an SQLite database that is packed: unpack it first"
    for magic, what in _MAGIC:
        if head.startswith(magic):
            return what
    if head.startswith(_TAR_MARK, _TAR_PLACE):
        return "is a tar archive: unpack it first with tar -xf, and give the trace in it"
    for encoding, pattern in _WIDE.items():
        if pattern.match(head):
            return f"is {encoding} text: convert it to UTF-8, with iconv -f {encoding} -t UTF-8"
    if name.lower().endswith((".xplane.pb", *(f".xplane.pb{end}" for end in _SUFFIXES))) and _is_odd_profile(head):
        return (
            "is named as a profile of JAX and does not begin as one: its first bytes are damaged, or it is something"
            " else; copy or record it again"
        )
    if head[0] == 0x0A and _BINARY.search(head, 0, 512):
        return _what_protobuf_is(head)
    if name.lower().endswith(_NSYS_NAMES):
        return f"{_NSYS} ({PurePath(name).suffix}); {_AS_SQLITE} {PurePath(name).name}"
    named = "" if unpacked else _SUFFIXES.get(PurePath(name).suffix.lower(), "")
    if named and _BINARY.search(head, 0, 512):
        return (
            f"is named as {named} and does not begin as one: it is encrypted, or its first bytes are damaged; copy or "
            "record it again"
        )
    line = text.splitlines()[0].decode("utf-8", "ignore")
    columns = {column.strip().strip('"').lower() for column in line.split(",")}
    for wanted, what in _HEADERS:
        if wanted <= columns:
            return what
    if line[:20].isprintable() and b"\0" not in text[:64]:
        return f"begins with {line[:20]!r}, not with JSON"
    return "is binary data that no profiler trace begins with"


def is_execution_trace(head: bytes) -> bool:
    """Whether a JSON object without an event list is an execution trace of PyTorch."""
    keys = _keys(head)
    return {b"schema", b"nodes"} <= keys or not ({b"rf_id", b"ctrl_deps"}.isdisjoint(keys) or b"id" not in keys)


def _keys(head: bytes) -> set[bytes]:
    return set(re.findall(rb'"([\w-]+)"\s*:', head[: 4 * 65536]))


def what_json_is(head: bytes, whole: bool) -> str | None:
    """What a JSON object without an event list is, if that is clear.

    Args:
        head: its beginning.
        whole: whether that is all.
    """
    keys = _keys(head)
    if is_execution_trace(head):
        return IS_EXECUTION_TRACE
    if b"nbformat" in keys:
        return "is a notebook, not a profiler trace"
    if b"traceEvents" in keys:
        return "is JSON whose outermost object has no list `traceEvents`" if whole else None
    if whole and keys:
        shown = ", ".join(sorted(key.decode("ascii", "replace") for key in keys)[:5])
        return f"is JSON without a list `traceEvents` (it has: {shown})"
    return None


_TIMELINE = re.compile(rb"\s*\[\s*\[\s*(?:-?\d|\])")
_NO_OBJECT = re.compile(rb'\s*\[\s*(?:\[|-?\d|"|true|false|null)')


def what_list_is(head: bytes) -> str | None:
    """What a list in JSON is that begins with no event; None where one may follow.

    Args:
        head: its beginning.
    """
    if b"{" in head or not _NO_OBJECT.match(head):
        return None
    if _TIMELINE.match(head):  # times and sizes, or (time, action, bytes, category) each
        return f"is a memory timeline, as export_memory_timeline writes it, not a trace; {_EXPORTED}"
    return NO_EVENTS


def what_chrome_trace_is(keys: Mapping[str, Any], processes: Iterable[str], categories: Iterable[str]) -> str:
    """What a trace in Chrome's format is none of whose events has a category of PyTorch's profiler.

    Args:
        keys: what stands beside the event list.
        processes: names of processes in it.
        categories: categories of its events.
    """
    categories = list(categories)
    is_of_jax = "highres-ticks" in keys or any(map(_OF_JAX.match, processes))
    shown = f" (it has {', '.join(sorted(categories)[:4])})" if categories else ""
    tool, instead = (
        (_JAX, f"{_BESIDE_XPLANE}; {_EXPORTED}") if is_of_jax else ("another tool", f"{_ANYWAY}; {_EXPORTED}")
    )
    return (
        f"is a Chrome trace of {tool}: no event has a category of PyTorch's profiler{shown}; "
        f"ui.perfetto.dev opens it; {instead}"
    )


def _is_odd_profile(head: bytes) -> bool:
    """Whether binary data that is named as a profile does not begin as one."""
    return bool(_BINARY.search(head, 0, 512)) and not (head[0] == 0x0A and _what_protobuf_is(head) is IS_XPLANE)


def _what_protobuf_is(head: bytes) -> str:
    """XPlane and Perfetto both begin with a message in field 1; its content decides."""
    first = _message(head, 0)
    if first is not None:
        begin, end = first
        plane = re.match(rb"(?:\x08[\x80-\xff]*[\x00-\x7f])?\x12[\x01-\x7f](/(?:host|device)|Task)", head[begin:])
        if plane:
            return IS_XPLANE
        if end < len(head) and _message(head, end) is not None:
            return _PERFETTO
    if _PLANES.search(head):
        return IS_XPLANE
    return f"is a protocol buffer (of XLA or Perfetto?), but no profile; {_JAX_TOO}"


def _message(head: bytes, at: int) -> tuple[int, int] | None:
    """Begin and end of the message of field 1 that stands at a place; None if none does."""
    if head[at : at + 1] != b"\x0a":
        return None
    size = shift = 0
    for place in range(at + 1, min(at + 6, len(head))):
        size |= (head[place] & 127) << shift
        if head[place] < 128:
            return (place + 1, place + 1 + size) if size else None
        shift += 7
    return None
