"""Reading a trace in chunks of whole events, without ever holding the file.

A chunk is a stretch of the event list that begins at an event's `{` and ends at an event's `}`. Where to cut is
found in bytes: `}`, `,`, `{` and a quoted key that events begin with cannot occur inside a JSON string (a quote
there either opens a key, or closes a string and then no letter follows). They can only be *nested* deeper than
the event list; then the chunk has unbalanced brackets, does not decode, and is carried into the next one. A
chunk that decodes proves that its end lies between two events.

Chunks of 256 KiB stay in the processor's cache together with the objects made of them; larger ones are up to
twice as slow per event. Only where the bytes show no boundary for long does a chunk grow.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO, Protocol

import msgspec

from tracelens_graph.errors import TraceError
from tracelens_graph.loaders.kineto.events import KEPT_METADATA
from tracelens_graph.loaders.sources import HEAD, check_is_json

BLOCK = 256 * 1024
_HEAD_TRIES = 8
"""Places where the event list may begin that are tried out."""
_EXTENSIONS = 3

_SECOND_TRACE = re.compile(rb'[^:,\[\s]\s*(\{)\s*"')
"""Where a trace can begin behind another one: no value does there."""
_LONGEST_HEAD = 1 << 18
_LIST = "the list that is read"
"""A key that no file has: behind one list there may be an empty one under the key of another kind of trace."""
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True)
class Layout:
    """Where a kind of trace has its list of events or nodes.

    Attributes:
        key: the key of the list.
        boundary: the end of one entry and the begin of the next one, up to the quote behind its first key.
        metadata: keys beside the list whose values are read however large the others are.
        found: what a file without the list is, if that is clear; see `foreign.what_json_is`.
    """

    key: str
    boundary: re.Pattern[bytes]
    metadata: frozenset[str]
    found: Callable[[bytes, bool], str | None]

    @cached_property
    def opening(self) -> re.Pattern[bytes]:
        """The key of the list and its bracket."""
        return re.compile(rb'"%s"\s*:\s*\[' % self.key.encode())


def _what_json_is(head: bytes, is_whole: bool) -> str | None:
    """As `foreign.what_json_is`, which is imported where a file has no list of events."""
    from tracelens_graph.loaders.foreign import what_json_is

    return what_json_is(head, is_whole)


EVENTS = Layout(
    "traceEvents",
    re.compile(rb'\}\s*,\s*\{\s*"(?:ph|name|cat|pid|tid|ts|dur|id|args|s|bp)"\s*:'),
    frozenset((*KEPT_METADATA, "metadata")),
    _what_json_is,
)


class Consumer(Protocol):
    """What the walker hands chunks to."""

    def chunk(self, text: memoryview, offset: int) -> None:
        """Take `[event, event, ...]`; `offset` is that of the first event in the file.

        Raises:
            msgspec.DecodeError, UnicodeDecodeError: the text is not valid JSON; nothing was taken.
        """

    def broken(self, text: bytes, offset: int, last: bool) -> bytes | None:
        """Take what can be saved of a stretch that does not decode; the text after the list's end, if in it."""

    def forget(self) -> None:
        """Forget all that was taken: another list under the same key follows, and the last one counts."""


class Walker:
    """One pass over a trace file.

    Attributes:
        head: top-level keys before the event list, tail: those after it (raw JSON values).
        bare: whether the file is a bare list of events.
        position: offset up to which events were consumed.
        ended: whether the end of the list was reached.
        faults: kinds of repair applied to the head or tail.
    """

    def __init__(self, stream: BinaryIO, name: str, layout: Layout = EVENTS) -> None:
        self.stream, self.name, self._layout = stream, name, layout
        self.head: dict[str, Any] = {}
        self.tail: dict[str, Any] = {}
        self.bare = False
        self.ended = False
        self.faults: Counter[str] = Counter()
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
        first = self.following()[:HEAD]
        if self._base < 0 or first:
            check_is_json(first, self.name, unpacked=True)
        text = first.removeprefix(b"\xef\xbb\xbf").lstrip()
        if text[:1] == b"[":
            from tracelens_graph.loaders.foreign import not_a_trace, what_list_is

            if found := what_list_is(text):
                raise not_a_trace(self.name, found, text)
            self.bare = True
            self._consume(first.index(b"[") + 1)
            return
        searched = tries = 0
        while True:
            head = self.following()
            for match in self._layout.opening.finditer(head, max(0, searched - 64)):
                tries += 1
                if self._take_head(head[: match.end()]):
                    self._consume(match.end())
                    return
                if tries == _HEAD_TRIES:
                    break
            searched = len(head)
            found = None if searched > 2 * BLOCK and not self._eof else self._layout.found(head, self._eof)
            if self._eof or tries == _HEAD_TRIES or found:
                from tracelens_graph.loaders.foreign import not_a_trace

                raise not_a_trace(self.name, found or f"holds no list `{self._layout.key}`", head)
            while self._end - self._begin < 2 * searched and self._fill():
                pass

    def _take_head(self, text: bytes) -> bool:
        try:
            head = self._decoded(text.removeprefix(b"\xef\xbb\xbf") + b"]}")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if text.count(b'"') % 2 and text.count(b"\\") == 0:
                return False
            from tracelens_graph.loaders.kineto.repair import repair_object

            repaired = repair_object(text + b"]}")
            if repaired is None or self._layout.key not in repaired[0]:
                return False
            head, faults = repaired
            self.faults.update(faults)
        if self._layout.key not in head:
            return False
        del head[self._layout.key]
        self.head = head
        return True

    def _decoded(self, text: bytes) -> dict[str, Any]:
        """The keys of an object; of those that nobody reads the value is None."""
        return {
            key: msgspec.json.decode(value) if key in self._layout.metadata else None
            for key, value in _OBJECT.decode(text).items()
        }

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
            match = self._layout.boundary.search(bytes(self._buffer[self._begin : self._end]))
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
            held, limit = self._end - self._begin, self._end
            if stop is not None and self._base + self._end >= stop:
                limit = stop - self._base
                if limit <= self._begin:
                    return limit == self._begin
                cut, following = self._before_stop(limit)
            elif self._eof:
                if not self._is_replaced(consumer, self._end):
                    self._finish(consumer)
                continue
            else:
                cut, following = self._last_boundary(limit)
            if cut < 0:
                wanted = 2 * held
                continue
            fault = self._hand_over(consumer, cut)
            if fault is not None:
                # Perhaps the cut was inside a nested list: then a longer chunk decodes.
                attempts += 1
                if attempts <= _EXTENSIONS and not isinstance(fault, UnicodeDecodeError) and limit == self._end:
                    wanted = 2 * held
                    continue
                if stop is not None and self._base + limit == stop:
                    return False
                if self._is_replaced(consumer, cut):
                    wanted, attempts = BLOCK, 0
                    continue
                if self._mended(consumer, cut):
                    break
            self._begin, wanted, attempts = following, BLOCK, 0
        return stop is None

    def _mended(self, consumer: Consumer, cut: int) -> bool:
        """Have what does not decode repaired; whether the event list ended in it."""
        text = bytes(memoryview(self._buffer)[self._begin : cut])
        if self._first_trace(consumer, text):
            return True
        remainder = consumer.broken(text, self.position, False)
        if remainder is None:
            return False
        self._begin = cut - len(remainder)
        self._read_tail(consumer)
        return True

    def _first_trace(self, consumer: Consumer, text: bytes) -> bool:
        """End with the first trace if another one begins in what does not decode; whether one does."""
        end = _begin_of_second(text, self._layout)
        if end < 0:
            return False
        remainder = consumer.broken(text[:end], self.position, True) or b""
        self._stop_before_second()
        self._keep_tail(remainder)
        return True

    def _is_replaced(self, consumer: Consumer, end: int, before: bytes = b"") -> bool:
        """Go to the last list under the key that begins in what is buffered; whether one does.

        As `json.load` does, keys that stand twice have their last value. Keys between two lists go to the head.

        Args:
            consumer: what forgets the list that does not count.
            end: where to stop looking in the buffer.
            before: `]` behind the list; nothing in it.
        """
        text = bytes(memoryview(self._buffer)[self._begin : end])
        begins = [match.end() for match in self._layout.opening.finditer(text)]
        for at in reversed(begins[-_HEAD_TRIES:]):
            with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                keys = self._decoded(b'{"%s":[' % _LIST.encode() + before + text[:at] + b"]}")
                if self._layout.key in keys:
                    del keys[_LIST], keys[self._layout.key]
                    consumer.forget()
                    self.head |= keys
                    self.faults = Counter({"second_list": 1})
                    self._begin += at
                    return True
        return False

    def _stop_before_second(self) -> None:
        """Pass over another trace."""
        self.faults["second_trace"] += 1
        self._begin = self._end
        while self._fill():  # a compressed file is proven by its last bytes
            self._begin = self._end

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
        for last in self._layout.boundary.finditer(self._buffer, self._begin, limit):  # noqa: B007
            pass
        if last is None:
            return -1, -1
        # Events of one writer look alike: next time the very same bytes are looked for, which is quicker.
        self._separator = bytes(last.group())
        return last.start() + 1, last.start() + self._separator.index(b"{")

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
        try:
            text.release()  # not where a signal ended the chunk: its pieces are still in use then
        except BufferError:  # a profiler in another thread looks at a frame that holds pieces
            self._buffer = bytearray(buffer)
        return fault

    def _finish(self, consumer: Consumer) -> None:
        """The rest of the file: the last events, the end of the list, the keys after it."""
        self.ended = True
        rest = self.following()
        try:
            if self.bare:
                events = b"[" + rest.rstrip().removesuffix(b"]") + b"]"
                if not rest.rstrip().endswith(b"]"):
                    raise msgspec.DecodeError("the list is not closed")
                tail: dict[str, Any] = {}
            else:
                text = b'{"%s":[' % _LIST.encode() + rest
                events = bytes(_OBJECT.decode(text)[_LIST])
                tail = self._decoded(text)
                del tail[_LIST]
            begin = len(events) - len(events[1:].lstrip())
            if inside := events[begin:-1].rstrip():
                consumer.chunk(memoryview(b"[" + inside + b"]"), self.position + begin - 1)
            self.tail = tail
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if self._first_trace(consumer, rest):
                return
            remainder = consumer.broken(rest, self.position, True)
            if remainder is not None:
                self._begin = self._end - len(remainder)
                self._read_tail(consumer)
                return
        self._begin = self._end

    def _read_tail(self, consumer: Consumer) -> None:
        """Keep what can be read of the keys after the event list, which has just ended, and find another list there."""
        while self._fill():
            pass
        if self._is_replaced(consumer, self._end, b"]"):
            self.ended = False
            return
        self.ended = True
        text = self.following()
        self._begin = self._end
        if (end := _begin_of_second(text, self._layout)) >= 0:
            text = text[:end]
            self._stop_before_second()
        self._keep_tail(text)

    def _keep_tail(self, text: bytes) -> None:
        """Keep what can be read of the keys in the text behind the event list."""
        self.ended = True
        if self.bare:
            return
        from tracelens_graph.loaders.kineto.repair import repair_object

        repaired = repair_object(b'{"%s":[]' % _LIST.encode() + text)
        if repaired is not None:
            self.tail, faults = repaired
            del self.tail[_LIST]
            self.faults.update(faults)

    def following(self) -> bytes:
        """What is buffered and not consumed: behind `read_head` the first entries."""
        with memoryview(self._buffer) as view:
            return bytes(view[self._begin : self._end])

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


def _begin_of_second(text: bytes, layout: Layout) -> int:
    """Where in a text that does not decode another trace begins; -1 if none does."""
    behind = 0
    for key in layout.opening.finditer(text):
        for begin in _SECOND_TRACE.finditer(text, max(behind, key.start() - _LONGEST_HEAD), key.end()):
            try:
                _OBJECT.decode(text[begin.start(1) : key.end()] + b"]}")
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            return begin.start(1)
        behind = key.end()
    return -1
