"""Pickles of plain values, read without running them.

A pickle is a program, and the one of somebody else may do anything. So only the instructions that make plain values
are followed: None, booleans, numbers, texts, bytes, tuples, lists, dictionaries. Any other one ends the reading.
Source: the instructions as `Lib/pickletools.py` of Python describes them, protocols 2 to 5.
"""

from __future__ import annotations

import struct
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
    """The machine that a pickle is a program for: a stack, a memo, and a place in the text."""

    def __init__(self, data: bytes, name: str) -> None:
        self._data, self._name = data, name
        self._at = 0
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def value(self) -> Any:
        """Follow all instructions; the value that is left."""
        data, stack, memo = self._data, self._stack, self._memo
        while True:
            code = data[self._at : self._at + 1]
            self._at += 1
            if code in _SIZES:  # a number, or what stands in the memo at it
                form, kind = _SIZES[code]
                number = self._number(form)
                if kind == "value":
                    stack.append(number)
                elif kind == "get":
                    stack.append(memo[number])
                elif kind == "put":
                    memo[number] = stack[-1]
                elif kind == "text":
                    stack.append(self._bytes(number).decode("utf-8", "surrogatepass"))
                elif kind == "bytes":
                    stack.append(self._bytes(number))
                elif kind == "long":
                    stack.append(int.from_bytes(self._bytes(number), "little", signed=True))
            elif code == b"\x94":
                memo[len(memo)] = stack[-1]
            elif code in _EMPTY:
                stack.append(_EMPTY[code]())
            elif code in _CONSTANTS:
                stack.append(_CONSTANTS[code])
            elif code == b"u":
                items = self._since_mark()
                stack[-1].update(zip(items[::2], items[1::2], strict=True))
            elif code == b"s":
                value, key = stack.pop(), stack.pop()
                stack[-1].update({key: value})
            elif code == b"e":
                items = self._since_mark()
                stack[-1].extend(items)
            elif code == b"a":
                item = stack.pop()
                stack[-1].append(item)
            elif code == b"t":
                stack.append(tuple(self._since_mark()))
            elif code in _TUPLES:
                count = _TUPLES[code]
                items = stack[-count:]
                if len(items) < count:
                    raise IndexError
                stack[-count:] = [tuple(items)]
            elif code == b".":
                return stack.pop()
            else:
                self._refuse(code)

    def _number(self, form: struct.Struct) -> Any:
        (number,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        return number

    def _bytes(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        if count < 0 or len(found) < count:
            raise IndexError
        self._at += count
        return found

    def _since_mark(self) -> list[Any]:
        at = len(self._stack) - 1
        while self._stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise IndexError
        items = self._stack[at + 1 :]
        del self._stack[at:]
        return items

    def _refuse(self, code: bytes) -> NoReturn:
        if not code:
            raise IndexError
        what = _NAMES.get(code, f"0x{code.hex()}")
        raise NotATraceError(
            f"{self._name}: is a pickle that does more than hold plain values (instruction {what} at byte "
            f"{self._at - 1:,}): it is not run"
        )


def _form(form: str) -> struct.Struct:
    return struct.Struct(form)


_SIZES = {
    b"\x80": (_form("<B"), "skip"), b"\x95": (_form("<Q"), "skip"),
    b"K": (_form("<B"), "value"), b"M": (_form("<H"), "value"), b"J": (_form("<i"), "value"),
    b"G": (_form(">d"), "value"),
    b"h": (_form("<B"), "get"), b"j": (_form("<I"), "get"), b"q": (_form("<B"), "put"), b"r": (_form("<I"), "put"),
    b"\x8c": (_form("<B"), "text"), b"X": (_form("<I"), "text"), b"\x8d": (_form("<Q"), "text"),
    b"C": (_form("<B"), "bytes"), b"B": (_form("<I"), "bytes"), b"\x8e": (_form("<Q"), "bytes"),
    b"\x8a": (_form("<B"), "long"), b"\x8b": (_form("<i"), "long"),
}  # fmt: skip
"""Instruction -> the number behind it, and what it is: a value, a place in the memo, or the length of what follows."""

_EMPTY = {b"}": dict, b"]": list, b")": tuple}
_CONSTANTS = {b"N": None, b"\x88": True, b"\x89": False, b"(": _MARK}
_TUPLES = {b"\x85": 1, b"\x86": 2, b"\x87": 3}
