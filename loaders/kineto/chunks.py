"""Reading a trace in chunks of whole events, without ever holding the file.

A chunk is a stretch of the event list that begins at an event's `{` and ends at an event's `}`. Where to cut is
found in bytes: `}`, `,`, `{` and a quoted key that events begin with cannot occur inside a JSON string (a quote
there either opens a key, or closes a string and then no letter follows). They can only be *nested* deeper than
the event list; then the chunk has unbalanced brackets, does not decode, and is carried into the next one. A
chunk that decodes proves that its end lies between two events.

Chunks of 256 KiB stay in the processor's cache together with the objects made of them; larger ones are up to
twice as slow per event.
"""

from __future__ import annotations

import re
from typing import Any, BinaryIO, Protocol

import msgspec

from tracelens_graph.errors import NotATraceError, TraceError
from tracelens_graph.loaders.foreign import HEAD, what_json_is
from tracelens_graph.loaders.sources import check_is_json

BLOCK = 256 * 1024
_HEAD_LIMIT = 64 * 1024 * 1024
_EXTENSIONS = 3

_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BOUNDARY = re.compile(rb'\}\s*,\s*\{\s*"(?:ph|name|cat|pid|tid|ts|dur|id|args|s|bp)"\s*:')
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Consumer(Protocol):
    """What the walker hands chunks to."""

    def chunk(self, text: memoryview, offset: int) -> None:
        """Take `[event, event, ...]`; `offset` is that of the first event in the file.

        Raises:
            msgspec.DecodeError, UnicodeDecodeError: the text is not valid JSON; nothing was taken.
        """

    def broken(self, text: bytes, offset: int, last: bool) -> bytes | None:
        """Take what can be saved of a stretch that does not decode; the text after the list's end, if in it."""


class Walker:
    """One pass over a trace file.

    Attributes:
        head: top-level keys before the event list, tail: those after it (raw JSON values).
        bare: whether the file is a bare list of events.
        position: offset up to which events were consumed.
        ended: whether the end of the list was reached.
        faults: kinds of repair applied to the head or tail.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self.stream, self.name = stream, name
        self.head: dict[str, Any] = {}
        self.tail: dict[str, Any] = {}
        self.bare = False
        self.ended = False
        self.faults: dict[str, int] = {}
        self._separator = b""
        self._buffer = bytearray(2 * BLOCK + 64)
        # One byte of slack in front, so that a `[` can stand before the first event.
        self._begin = self._end = 1
        self._base = -1  # offset in the file of buffer[0]
        self._eof = False

    @property
    def position(self) -> int:
        """Offset in the file of the first byte not consumed yet."""
        return self._base + self._begin

    def read_head(self) -> None:
        """Find the event list and keep the keys before it.

        Raises:
            NotATraceError: there is no event list; the message says what was found instead.
        """
        self._fill()
        first = bytes(self._buffer[self._begin : self._end][:HEAD])
        if self._base < 0 or first:
            check_is_json(first, self.name)
        text = first.removeprefix(b"\xef\xbb\xbf").lstrip()
        if text[:1] == b"[":
            self.bare = True
            self._consume(first.index(b"[") + 1)
            return
        searched = 0
        while True:
            head = bytes(self._buffer[self._begin : self._end])
            for match in _EVENTS_KEY.finditer(head, max(0, searched - 64)):
                if self._take_head(head[: match.end()]):
                    self._consume(match.end())
                    return
            searched = len(head)
            found = None if searched > 2 * BLOCK and not self._eof else what_json_is(head, self._eof)
            if found or self._eof or searched > _HEAD_LIMIT:
                raise NotATraceError(f"{self.name}: {found or 'holds no list `traceEvents`'}")
            self._fill()

    def _take_head(self, text: bytes) -> bool:
        try:
            keys = _OBJECT.decode(text.removeprefix(b"\xef\xbb\xbf") + b"]}")
        except (msgspec.DecodeError, UnicodeDecodeError):
            if text.count(b'"') % 2 and text.count(b"\\") == 0:
                return False
            from tracelens_graph.loaders.kineto.repair import repair_object

            repaired = repair_object(text + b"]}")
            if repaired is None or "traceEvents" not in repaired[0]:
                return False
            self.head, faults = repaired
            self._count(faults)
        else:
            if "traceEvents" not in keys:
                return False
            self.head = {key: msgspec.json.decode(value) for key, value in keys.items()}
        del self.head["traceEvents"]
        return True

    def skip_to(self, target: int) -> int:
        """Go to the first boundary between events at or after `target`; its offset, or -1 without one.

        The boundary is taken by its bytes alone; whoever reads the part before it proves it.
        """
        if self.stream.seekable() and target > self._base + self._end:
            self.stream.seek(target)
            self._base, self._begin, self._end = target - 1, 1, 1
        while self._base + self._end < target:
            self._begin = self._end
            if not self._fill():
                return -1
        self._begin = max(self._begin, target - self._base)
        while True:
            match = _BOUNDARY.search(bytes(self._buffer[self._begin : self._end]))
            if match:
                self._begin += match.start() + match.group().index(b"{", 1)
                return self.position
            self._begin = max(self._begin, self._end - 4096)
            if not self._fill():
                return -1

    def walk(self, consumer: Consumer, stop: int | None = None) -> bool:
        """Hand all chunks to the consumer, up to the boundary at `stop` if given.

        Returns:
            Whether the walk ended at `stop` exactly; always true without `stop`.
        """
        wanted, attempts = BLOCK, 0
        while not self.ended:
            while self._end - self._begin < wanted and self._fill():
                pass
            limit = self._end
            if stop is not None and self._base + self._end >= stop:
                limit = stop - self._base
                if limit <= self._begin:
                    return limit == self._begin
                cut, following = self._before_stop(limit)
            elif self._eof:
                self._finish(consumer)
                break
            else:
                cut, following = self._last_boundary(limit)
            if cut < 0:
                wanted = 2 * (self._end - self._begin)
                continue
            fault = self._hand_over(consumer, cut)
            if fault is not None:
                # Perhaps the cut was inside a nested list: then a longer chunk decodes.
                attempts += 1
                if attempts <= _EXTENSIONS and not isinstance(fault, UnicodeDecodeError) and limit == self._end:
                    wanted = 2 * (self._end - self._begin)
                    continue
                if stop is not None and self._base + limit == stop:
                    return False
                remainder = consumer.broken(bytes(self._buffer[self._begin : cut]), self.position, False)
                if remainder is not None:
                    self._begin = cut
                    self._finish_tail(remainder + self._rest())
                    break
            self._begin, wanted, attempts = following, BLOCK, 0
        return stop is None

    def _before_stop(self, limit: int) -> tuple[int, int]:
        """The cut just before the boundary `limit` (an event's brace), and the boundary itself."""
        cut = self._buffer.rfind(b"}", self._begin, limit) + 1
        return (cut, limit) if cut > 0 else (-1, -1)

    def _last_boundary(self, limit: int) -> tuple[int, int]:
        """Ends of the last event and begin of the one after it, in what is buffered; -1 where there is none."""
        at = self._buffer.rfind(self._separator, self._begin, limit) if self._separator else -1
        if at >= 0:
            return at + 1, at + self._separator.index(b"{")
        last = None
        for last in _BOUNDARY.finditer(bytes(self._buffer[self._begin : limit])):  # noqa: B007
            pass
        if last is None:
            return -1, -1
        # Events of one writer look alike: next time the very same bytes are looked for, which is quicker.
        self._separator = last.group()
        return self._begin + last.start() + 1, self._begin + last.start() + self._separator.index(b"{")

    def _hand_over(self, consumer: Consumer, cut: int) -> Exception | None:
        """Give the chunk to the consumer between brackets; the fault if it does not decode."""
        buffer, begin = self._buffer, self._begin
        before, after = buffer[begin - 1], buffer[cut]
        buffer[begin - 1], buffer[cut] = 0x5B, 0x5D
        text = memoryview(buffer)[begin - 1 : cut + 1]
        fault: Exception | None = None
        try:
            consumer.chunk(text, self.position)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            fault = error.with_traceback(None)  # whose frames hold pieces of the text
        finally:
            buffer[begin - 1], buffer[cut] = before, after
        text.release()  # not where a signal ended the chunk: its pieces are still in use then
        return fault

    def _finish(self, consumer: Consumer) -> None:
        """The rest of the file: the last events, the end of the list, the keys after it."""
        self.ended = True
        rest = bytes(self._buffer[self._begin : self._end])
        try:
            if self.bare:
                events = b"[" + rest.rstrip().removesuffix(b"]") + b"]"
                if not rest.rstrip().endswith(b"]"):
                    raise msgspec.DecodeError("the list is not closed")
                tail: dict[str, Any] = {}
            else:
                keys = _OBJECT.decode(b'{"traceEvents":[' + rest)
                events = bytes(keys.pop("traceEvents"))
                tail = {key: msgspec.json.decode(value) for key, value in keys.items()}
            if (first := events.find(b"{")) > 0:
                text = b"[" + events[first : events.rindex(b"}") + 1] + b"]"
                consumer.chunk(memoryview(text), self.position + first - 1)
            self.tail = tail
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            remainder = consumer.broken(rest, self.position, True)
            if remainder is not None:
                self._finish_tail(remainder)
        self._begin = self._end

    def _finish_tail(self, text: bytes) -> None:
        """Keep what can be read of the keys after an event list that needed repair."""
        from tracelens_graph.loaders.kineto.repair import repair_object

        self.ended = True
        repaired = None if self.bare else repair_object(b'{"traceEvents":[]' + text)
        if repaired is not None:
            self.tail, faults = repaired
            self.tail.pop("traceEvents", None)
            self._count(faults)

    def _rest(self) -> bytes:
        while self._fill():
            pass
        return bytes(self._buffer[self._begin : self._end])

    def _count(self, faults: dict[str, int]) -> None:
        for fault, count in faults.items():
            self.faults[fault] = self.faults.get(fault, 0) + count

    def _consume(self, count: int) -> None:
        self._begin += count

    def _fill(self) -> bool:
        """Read one more block behind what is buffered; false at the end of the stream."""
        if self._eof:
            return False
        if self._begin > BLOCK or self._end + BLOCK > len(self._buffer):
            kept = self._end - self._begin
            shift = self._begin - 1
            target = self._buffer if kept + BLOCK + 64 <= len(self._buffer) else bytearray(2 * (kept + BLOCK) + 64)
            target[1 : 1 + kept] = self._buffer[self._begin : self._end]
            target[0] = self._buffer[shift]
            self._buffer, self._base = target, self._base + shift
            self._begin, self._end = 1, 1 + kept
        try:
            with memoryview(self._buffer)[self._end : self._end + BLOCK] as room:
                count = self.stream.readinto(room)  # type: ignore[attr-defined]
        except (OSError, EOFError) as error:
            raise TraceError(f"{self.name}: cannot be read at byte {self._base + self._end:,}: {error}") from None
        if not count:
            self._eof = True
            return False
        self._end += count
        return True
