"""Pickles of plain values, read without running them.

A pickle is a program, and the one of somebody else may do anything. So only the instructions that make plain values
are followed: None, booleans, numbers, texts, bytes, tuples, lists, dictionaries. Any other one ends the reading.
Source: the instructions as `Lib/pickletools.py` of Python describes them, protocols 2 to 5.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NoReturn

from tracelens_graph.errors import NotATraceError, TraceError

_MARK = object()
_NAMES = {b"c": "GLOBAL", b"\x93": "STACK_GLOBAL", b"R": "REDUCE", b"i": "INST", b"o": "OBJ", b"\x81": "NEWOBJ",
          b"\x92": "NEWOBJ_EX", b"b": "BUILD", b"\x82": "EXT1", b"\x83": "EXT2", b"\x84": "EXT4", b"P": "PERSID",
          b"Q": "BINPERSID"}  # fmt: skip
"""Instructions that import or call, by name for the error."""


def plain_value(data: bytes, name: str) -> Any:
    """The value in a pickle of plain values.

    Args:
        data: the pickle.
        name: name of its file, for messages.

    Raises:
        NotATraceError: it holds an instruction that does more than make a plain value.
        TraceError: it is cut short or damaged.
    """
    try:
        return _Reader(data, name).value()
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, struct.error, UnicodeDecodeError):
        raise TraceError(f"{name}: the pickle is cut short or damaged; copy or write it again") from None


class _Reader:
    """The machine that a pickle is a program for: a stack and a memo."""

    def __init__(self, data: bytes, name: str) -> None:
        self._data, self._name = data, name
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def value(self) -> Any:
        """Follow all instructions; the value that is left."""
        # Snapshots have tens of millions of instructions: what each needs is looked up once, and at the least cost.
        data, stack, memo = self._data, self._stack, self._memo
        push, sizes, ready = stack.append, _SIZES.get, _READY.get
        at = 0
        while True:
            code = data[at]
            at += 1
            if (size := sizes(code)) is not None:  # a number, or what stands in the memo at it
                unpack, width, kind = size
                (number,) = unpack(data, at)
                at += width
                if kind == _PUT:
                    memo[number] = stack[-1]
                elif kind == _GET:
                    push(memo[number])
                elif kind == _VALUE:
                    push(number)
                elif kind != _SKIP:
                    if number < 0 or at + number > len(data):
                        raise IndexError
                    push(kind(data[at : at + number]))
                    at += number
            elif (make := ready(code)) is not None:
                push(make())
            elif code == _MEMOIZE:
                memo[len(memo)] = stack[-1]
            elif code == _SETITEMS:
                items = self._since_mark()
                stack[-1].update(zip(items[::2], items[1::2], strict=True))
            elif code == _SETITEM:
                value, key = stack.pop(), stack.pop()
                stack[-1].update({key: value})
            elif code == _APPENDS:
                items = self._since_mark()
                stack[-1].extend(items)
            elif code == _APPEND:
                item = stack.pop()
                stack[-1].append(item)
            elif code == _TUPLE:
                push(tuple(self._since_mark()))
            elif count := _TUPLES.get(code):
                items = stack[-count:]
                if len(items) < count:
                    raise IndexError
                stack[-count:] = [tuple(items)]
            elif code == _STOP:
                return stack.pop()
            else:
                self._refuse(code, at)

    def _since_mark(self) -> list[Any]:
        at = len(self._stack) - 1
        while self._stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise IndexError
        items = self._stack[at + 1 :]
        del self._stack[at:]
        return items

    def _refuse(self, code: int, at: int) -> NoReturn:
        what = _NAMES.get(bytes([code]), f"0x{code:02x}")
        raise NotATraceError(
            f"{self._name}: is a pickle that does more than hold plain values (instruction {what} at byte "
            f"{at - 1:,}): it is not run"
        )


_VALUE, _GET, _PUT, _SKIP = range(4)
_MEMOIZE, _SETITEMS, _SETITEM, _APPENDS, _APPEND, _TUPLE, _STOP = b"\x94useat."


def _text(part: bytes) -> str:
    return part.decode("utf-8", "surrogatepass")


def _long(part: bytes) -> int:
    return int.from_bytes(part, "little", signed=True)


def _sizes(form: str, kinds: dict[bytes, Any]) -> dict[int, tuple[Callable[..., Any], int, Any]]:
    number = struct.Struct(form)
    return {code[0]: (number.unpack_from, number.size, kind) for code, kind in kinds.items()}


_SIZES = {
    **_sizes("<B", {b"\x80": _SKIP, b"K": _VALUE, b"h": _GET, b"q": _PUT, b"\x8c": _text, b"C": bytes, b"\x8a": _long}),
    **_sizes("<H", {b"M": _VALUE}),
    **_sizes("<i", {b"J": _VALUE, b"\x8b": _long}),
    **_sizes("<I", {b"j": _GET, b"r": _PUT, b"X": _text, b"B": bytes}),
    **_sizes("<Q", {b"\x95": _SKIP, b"\x8d": _text, b"\x8e": bytes}),
    **_sizes(">d", {b"G": _VALUE}),
}
"""Instruction -> how to read the number behind it, its width, and what it is: a value, a place in the memo, nothing, or
the length of what follows, with what that becomes."""

_READY: dict[int, Callable[[], Any]] = {
    ord("}"): dict, ord("]"): list, ord(")"): tuple, ord("N"): lambda: None, 0x88: lambda: True, 0x89: lambda: False,
    ord("("): lambda: _MARK,
}  # fmt: skip
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}
