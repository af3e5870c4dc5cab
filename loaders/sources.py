"""Where a trace's bytes come from: files, compressed files, standard input, file objects, parsed JSON.

A `Source` can be opened again and again, each time as a stream of decompressed bytes, because arguments that no
analysis needs stay in the file until someone looks at them. The format is known by the first bytes, never by
the name. Standard input and file objects are spooled to a temporary file first.
"""

from __future__ import annotations

import io
import os
import stat
import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import IO, Any, BinaryIO

from tracelens_graph.errors import ChangedTraceError, NotATraceError, TraceError, XplaneError
from tracelens_graph.output.files import GRAPH_MAGIC

HEAD = 65536
"""Bytes that are enough to say what a file is."""
_GZIP = b"\x1f\x8b"
_ZSTD, _ZIP = b"\x28\xb5\x2f\xfd", b"PK\x03\x04"
_SQLITE = b"SQLite format 3\0"
_PICKLES = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))
ROCPROF_KEY, _FIRST_KEY = b'"rocprofiler-sdk-tool"', 256
"""The outermost key of a JSON result of rocprofv3, and bytes within which it stands."""
_BOM = b"\xef\xbb\xbf"
_DESCRIPTORS = "/proc/self/fd"
"""Where Linux has files that are open."""

GENERIC = "TRACELENS_GRAPH_GENERIC"
"""Environment variable: not empty where events of tools that are not known are read as functions of the host."""


class Source:
    """Bytes of one trace, decompressed, that can be read again.

    Attributes:
        name: what to call it in messages: the path, or `<stdin>` and the like.
        path: the file the bytes come from (a temporary one for a spool), None for bytes in memory.
        packing: "plain", "gzip", "zstd", "zip", "graph" (a saved graph), "sqlite" (a report of another profiler) or
            "pickle" (a snapshot of an allocator); the last two are read as the trace that says the same.
        cut_short: bytes that came out of a compressed stream that ended before its end; 0 of a whole one. Set while
            reading.
        faults: what else is wrong with a compressed file, by keys of `REPAIR_MEANING`. Set while reading.
        is_loaded: whether its graph was loaded, so that a change of the file comes after that.
        is_generic: whether events of tools that are not known are read as functions of the host.
    """

    def __init__(self, name: str, *, path: Path | None = None, data: bytes | None = None) -> None:
        self.name = name
        self.path = path
        self._data = data
        self.cut_short = 0
        self.faults: set[str] = set()
        self._spooled = False
        self.is_loaded = False
        self.is_generic = bool(os.environ.get(GENERIC))
        with self.raw() as file:
            self._stamp = (0, 0, 0) if path is None else _stamp(os.fstat(file.fileno()))
            head = file.read(HEAD)
        self.packing = _packing(head, name)

    @property
    def stored_size(self) -> int:
        """Bytes as stored, compressed or not."""
        return len(self._data) if self._data is not None else self._stamp[0]

    @property
    def in_memory(self) -> bool:
        """Whether the bytes are held in memory, not in a file."""
        return self._data is not None

    @property
    def database(self) -> Path | bytes:
        """Where the tables of a database are."""
        return self.path or self._data or b""

    @property
    def lasting(self) -> bool:
        """Whether the bytes stand in a file that outlives this process."""
        return self.path is not None and not self._spooled

    @property
    def packing_fault(self) -> str:
        """What is wrong with a compressed file, to be said behind what is wrong with its content; known once read."""
        from tracelens_graph.loaders.damaged_gzip import CHECKSUM

        if self.faults and CHECKSUM in self.faults:
            return "; the compressed file is damaged: copy or record it again"
        return "; the compressed file is cut short: copy or record it again" if self.cut_short else ""

    def raw_size(self) -> int:
        """Size of the decompressed bytes, estimated where the format does not say."""
        if self.packing == "gzip":
            with self.raw() as file:
                file.seek(-4, os.SEEK_END)
                tail = int.from_bytes(file.read(4), "little")
            # The trailer counts modulo 4 GiB, and only the last member: never less than what is stored.
            return max(tail, self.stored_size)
        if self.packing == "zip":
            import zipfile

            try:
                with self.raw() as file, zipfile.ZipFile(file) as archive:
                    return max((member.file_size for member in archive.infolist()), default=0)
            except zipfile.BadZipFile:
                return self.stored_size
        return self.stored_size * (8 if self.packing == "zstd" else 1)

    def open(self) -> BinaryIO:
        """A fresh stream of the decompressed bytes.

        Raises:
            ChangedTraceError: the file is no longer the one that was loaded.
            TraceError: it cannot be opened; or, while reading, it unpacks to more than it may.
        """
        self.check_unchanged()
        if not self._is_rocprof:
            return self._unpacked()
        from tracelens_graph.loaders.reports import open_result

        return open_result(self._unpacked(), self.name)

    @cached_property
    def _is_rocprof(self) -> bool:
        """Whether it is a JSON result of rocprofv3, which is read as the trace that says the same."""
        if self.packing in ("sqlite", "pickle", "graph"):
            return False
        with self._unpacked() as stream:
            return ROCPROF_KEY in (stream.read(_FIRST_KEY) or b"")

    def _unpacked(self) -> BinaryIO:
        """A fresh stream of what was packed; of a database, of the trace that says the same."""
        raw = self.raw()
        if self.path is not None and _stamp(os.fstat(raw.fileno())) != self._stamp:
            raw.close()
            raise self._changed()
        if self.packing in ("gzip", "zstd", "zip"):
            from tracelens_graph.loaders.unpacking import UNPACKED

            return UNPACKED[self.packing](raw, self)
        if self.packing == "pickle":
            from tracelens_graph.loaders.reports import open_snapshot

            return open_snapshot(raw, self.name)
        if self.packing == "sqlite":
            raw.close()
            from tracelens_graph.loaders.reports import open_database

            return open_database(self.database, self.name)
        return raw

    def check_unchanged(self) -> None:
        """Raise ChangedTraceError if the file was replaced, written to or deleted since this object was made."""
        if self.path is None:
            return
        try:
            state = self.path.stat()
        except OSError:
            what = "is gone since" if self.is_loaded else "was deleted while"
            raise ChangedTraceError(f"{self.name}: the file {what} it was loaded") from None
        if _stamp(state) != self._stamp:
            raise self._changed()

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Raise ChangedTraceError if the file changes while the block runs, whatever else fails for that reason."""
        try:
            yield
        except Exception:
            self.check_unchanged()
            raise
        self.check_unchanged()
        self.is_loaded = True

    def _changed(self) -> ChangedTraceError:
        when = "since" if self.is_loaded else "while"
        return ChangedTraceError(f"{self.name}: the file changed {when} it was loaded; load it again")

    def __getstate__(self) -> dict[str, Any]:
        if self._spooled:
            raise TypeError(f"{self.name} is spooled to a file of this process, which no other can rely on")
        return self.__dict__

    def raw(self) -> BinaryIO:
        """A fresh stream of the bytes as they are stored."""
        if self._data is not None:
            return io.BytesIO(self._data)
        assert self.path is not None
        try:
            return open(self.path, "rb", buffering=0)
        except (OSError, ValueError) as error:
            raise TraceError(f"{self.name}: {_reason(error)}") from None

    @classmethod
    def spooled(cls, stream: IO[bytes], name: str) -> Source:
        """A source of what a stream gives, kept in a temporary file for as long as the source lives.

        Raises:
            NotATraceError: it is something else; the message says what was found.
            TraceError: it cannot be read, or there is no space for it.
        """
        import shutil
        import tempfile

        head = b""
        while len(head) < HEAD and (more := stream.read(HEAD - len(head))):
            head += more
        _packing(head, name)  # a device may have no end
        # A file without a name, where it can be opened again by its descriptor: a kill leaves nothing behind then.
        make = tempfile.TemporaryFile if os.path.isdir(_DESCRIPTORS) else tempfile.NamedTemporaryFile
        spool: Any = make(prefix="tracelens-graph-", suffix=".spool")
        try:
            spool.write(head)
            shutil.copyfileobj(stream, spool, 1 << 20)
            spool.flush()
        except OSError as error:
            raise TraceError(f"{name}: cannot be kept in {tempfile.gettempdir()}: {_reason(error)}") from None
        nameless = isinstance(spool.name, int)
        source = cls(name, path=Path(f"{_DESCRIPTORS}/{spool.name}" if nameless else spool.name))
        source._spooled = True
        weakref.finalize(source, spool.close)
        return source


def _profile_in(folder: Path) -> Path:
    """The profile in a folder as JAX writes it.

    Raises:
        NotATraceError: it is no such folder, or holds the profiles of several hosts.
        TraceError: it cannot be read.
    """
    from tracelens_graph.loaders.xplane.files import profiles_in

    try:
        found = profiles_in(folder)
    except OSError as error:
        raise TraceError(f"{folder}: {_reason(error)}") from None
    if len(found) > 1:
        raise NotATraceError(f"{folder}: holds the profiles of {len(found):,} hosts; load_set() takes them together")
    if not found:
        raise NotATraceError(f"{folder}: is a folder, not a trace")
    return Path(found[0])


def _earlier(path: Path) -> str:
    """Where a sound profile of an earlier run may be; empty for nowhere."""
    from tracelens_graph.loaders.xplane.files import run_before

    found = run_before(path)
    return f"; an earlier run is in {found}" if found else ""


def open_source(source: Any) -> Source:
    """The Source of whatever `load()` was given.

    Args:
        source: a path, `-` for standard input, bytes of a file, a binary or text file object, or an already
            parsed trace (a dict with `traceEvents`, or the list of events).

    Raises:
        TraceError: nothing can be read there.
        NotATraceError: it is something else; the message says what was found.
    """
    if isinstance(source, Source):
        return source
    if isinstance(source, str | os.PathLike):
        if os.fspath(source) == "-":
            # Commands put the null device in the place of a standard input that was closed.
            if sys.stdin is None or getattr(sys.stdin, "name", None) == os.devnull:
                raise TraceError("<stdin>: is closed: name a file, or pipe a trace in")
            return Source.spooled(sys.stdin.buffer, "<stdin>")
        path = Path(os.fsdecode(source))
        if os.path.isdir(path):
            path = _profile_in(path)
        if is_stream(path):
            try:
                with open(path, "rb") as stream:
                    return Source.spooled(stream, str(path))
            except OSError as error:
                raise TraceError(f"{path}: {_reason(error)}") from None
        try:
            return Source(str(path), path=path.absolute())
        except NotATraceError as error:
            raise NotATraceError(f"{error}{_earlier(path)}") from None
    if isinstance(source, bytes | bytearray | memoryview):
        return Source("<bytes>", data=bytes(source))
    if isinstance(source, Mapping) or (isinstance(source, Sequence) and not isinstance(source, str)):
        return Source("<parsed trace>", data=_compact_json(source))
    if hasattr(source, "read"):
        name = str(getattr(source, "name", "<stream>"))
        probe = source.read(0)
        if isinstance(probe, str):
            return Source(name, data=source.read().encode("utf-8", "surrogatepass"))
        return Source.spooled(source, name)
    raise NotATraceError(f"cannot load a {type(source).__name__}: give a path, a file object or parsed JSON")


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether a path is `-`, a pipe, socket or device: it can be read once only, by this process, and may never end."""
    if os.fspath(path) == "-":
        return True
    try:
        kind = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(kind) or stat.S_ISDIR(kind))


def _compact_json(parsed: Any) -> bytes:
    import msgspec

    try:
        return msgspec.json.encode(parsed)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError, UnicodeError):
        pass
    import json

    try:
        return json.dumps(parsed, separators=(",", ":")).encode("utf-8", "replace")
    except (TypeError, ValueError, RecursionError) as error:
        raise NotATraceError(f"<parsed trace>: cannot be written as JSON: {error}") from None


def _packing(head: bytes, name: str) -> str:
    if head.startswith(GRAPH_MAGIC):
        return "graph"
    for magic, packing in ((_GZIP, "gzip"), (_ZSTD, "zstd"), (_ZIP, "zip"), (_SQLITE, "sqlite")):
        if head.startswith(magic):
            return packing
    if head.startswith(_PICKLES):
        return "pickle"
    with suppress(XplaneError):
        check_is_json(head, name)
    return "plain"


def check_is_json(head: bytes, name: str, *, unpacked: bool = False) -> None:
    """Raise NotATraceError, saying what was found, unless the text may begin a JSON object or list.

    Args:
        head: the first bytes.
        name: name of the file.
        unpacked: whether the bytes are what a compressed file of that name holds.
    """
    if not head:
        raise NotATraceError(f"{name}: is empty, not a trace")
    text = head.removeprefix(_BOM).lstrip()
    if text[:1] in (b"{", b"[") and text[1:2] != b"\0":  # which is UTF-16
        return
    from tracelens_graph.loaders.foreign import IS_XPLANE, what_is

    found = what_is(head, name, unpacked=unpacked)
    raise (XplaneError if found is IS_XPLANE else NotATraceError)(f"{name}: {found}")


def _stamp(state: os.stat_result) -> tuple[int, int, int]:
    return state.st_size, state.st_mtime_ns, state.st_ino


def _reason(error: OSError | ValueError) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
