"""Compressed files as streams of what they hold, which end in an error where that is more than any trace holds."""

from __future__ import annotations

import io
import math
import os
import zlib
from typing import Any, BinaryIO

from tracelens_graph.errors import MissingExtraError, NotATraceError, TraceError
from tracelens_graph.loaders.damaged_gzip import salvage

UNPACK_LIMIT = "TRACELENS_GRAPH_UNPACK_LIMIT"
"""Environment variable: how many times its stored size a file may unpack to; 0 for any."""
_UNPACK_LIMIT = 250
"""Default of that. Real traces unpack to 10 to 30 times their size."""
_ALWAYS_UNPACKED = 1 << 20
"""Bytes that any file may unpack to: short traces of a few events repeated pack better than real ones."""


class Stream(io.RawIOBase, BinaryIO):
    """A stream of bytes that are made as they are read.

    Args:
        inner: what they are made of, closed with the stream.
    """

    def __init__(self, *inner: Any) -> None:
        self._inner = inner

    def readable(self) -> bool:
        """True."""
        return True

    def close(self) -> None:
        """Close what the bytes are made of, too."""
        if not self.closed:
            for one in self._inner:
                one.close()
        super().close()


class Unpacked(Stream):
    """What a decompressor gives, up to the limit.

    Args:
        raw: the file as it is stored.
        source: the `Source` that it is of, which records faults.

    Raises:
        TraceError: while reading: there is more; when made: the environment variable that says so holds no number.
    """

    def __init__(self, raw: BinaryIO, source: Any) -> None:
        super().__init__(raw)
        self._raw, self._source = raw, source
        self._count, self._most = 0, _most_unpacked(source.stored_size)

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as it goes; the number of bytes."""
        count = self._unpack_into(buffer)
        self._count += count
        if self._count > self._most:
            times = os.environ.get(UNPACK_LIMIT) or _UNPACK_LIMIT
            raise TraceError(
                f"{self._source.name}: unpacks to more than {times} times its size of {self._source.stored_size:,} "
                f"bytes, which no real trace does; to read it all the same, set the environment variable "
                f"{UNPACK_LIMIT} to a larger number, or to 0 for no limit"
            )
        return count

    def _unpack_into(self, buffer: Any) -> int:
        raise NotImplementedError


def _most_unpacked(stored: int) -> float:
    given = os.environ.get(UNPACK_LIMIT) or str(_UNPACK_LIMIT)
    try:
        ratio = float(given)
    except ValueError:
        ratio = math.nan
    if not ratio >= 0:
        raise TraceError(f"{UNPACK_LIMIT}={given}: is not a number of times; 0 allows any")
    return max(_ALWAYS_UNPACKED, ratio * stored) if ratio else math.inf


class _Gzip(Unpacked):
    """Through igzip; where that fails, what can be had of the rest."""

    def __init__(self, raw: BinaryIO, source: Any) -> None:
        super().__init__(raw, source)
        from isal import igzip

        opened: Any = igzip.open
        self._fast = opened(raw, "rb")
        self._slow: BinaryIO | None = None

    def _unpack_into(self, buffer: Any) -> int:
        if self._slow is None:
            try:
                return int(self._fast.readinto(buffer))
            except Exception as error:
                # isal raises its own error class, which it does not export everywhere
                is_of_isal = type(error).__name__ in ("IsalError", "error")
                if not is_of_isal and not isinstance(error, EOFError | OSError | zlib.error | ValueError):
                    raise
                self._slow = self._restart()
        data = self._slow.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _restart(self) -> BinaryIO:
        """Whatever follows the present position, as far as it can be had."""
        import tempfile

        self._raw.seek(0)
        out: Any = tempfile.TemporaryFile()  # noqa: SIM115
        self._inner = self._raw, out
        ends_early, faults = salvage(self._raw, out, self._most)
        if ends_early:
            self._source.cut_short = max(out.tell(), 1)
        self._source.faults |= faults
        out.seek(self._count)
        return out


class _Zstd(Unpacked):
    def __init__(self, raw: BinaryIO, source: Any) -> None:
        super().__init__(raw, source)
        try:
            import zstandard
        except ImportError:
            raise MissingExtraError("zstandard", "zstd") from None
        self._error = zstandard.ZstdError
        self._reader = zstandard.ZstdDecompressor(max_window_size=2**31).stream_reader(raw, read_across_frames=True)

    def _unpack_into(self, buffer: Any) -> int:
        try:
            return int(self._reader.readinto(buffer))
        except self._error:
            self._source.cut_short = max(self._count, 1)
            return 0


class _Zip(Unpacked):
    """The one trace in an archive."""

    def __init__(self, raw: BinaryIO, source: Any) -> None:
        super().__init__(raw, source)
        import zipfile

        try:
            archive = zipfile.ZipFile(raw)
            files = [member for member in archive.infolist() if not member.is_dir()]
            traces = [member for member in files if member.filename.endswith(".json")] or files
            if len(traces) != 1:
                raise NotATraceError(f"{source.name}: the zip holds {len(traces)} files; one JSON trace was expected")
            self._file: Any = archive.open(traces[0])
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
            self.close()
            raise TraceError(f"{source.name}: {_zip_fault(error)}") from None
        except NotATraceError:
            self.close()
            raise
        self._inner = self._file, raw

    def _unpack_into(self, buffer: Any) -> int:
        try:
            return int(self._file.readinto(buffer))
        except Exception as error:  # zipfile, its decompressors and the checksum each have errors of their own
            raise TraceError(f"{self._source.name}: {_zip_fault(error)}") from None


def _zip_fault(error: Exception) -> str:
    if str(error) == "File is not a zip file":  # which is said of one without the list of files at its end
        return "is a zip archive that is cut short or damaged: copy it again"
    if isinstance(error, RuntimeError | NotImplementedError):  # a password, another compression
        return f"the zip archive cannot be read: {error}"
    return f"the zip archive is damaged: {error}; copy it again"


UNPACKED: dict[str, type[Unpacked]] = {"gzip": _Gzip, "zstd": _Zstd, "zip": _Zip}
"""How a file is packed -> what it holds."""
