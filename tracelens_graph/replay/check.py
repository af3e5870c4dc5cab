"""Whether a program is one of ours, to the last statement, and holds nothing but data.

A program is compared as a syntax tree with what would be put together for the data that it holds. So a file that
somebody edited, or that hostile text in a trace tried to bend, is told apart before it runs.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tracelens_graph.errors import TraceLensGraphError
from tracelens_graph.extensions.replayer import Replayer, is_module
from tracelens_graph.replay.allowed import why_not
from tracelens_graph.replay.assemble import parts, program, slot_of

BUILDERS = frozenset({
    "tensor", "shared", "quantized", "sparse_coo", "sparse_csr", "dtype", "layout", "memory_format", "device",
    "generator", "restored", "use",
})  # fmt: skip
"""Functions of programs that data may call."""
_OF_PYTHON = frozenset({"float", "complex"})
_CONSTANTS = (bool, int, float, str, type(None))
_CALLED = re.compile(r"[A-Za-z]\w*(\.\w+\.[A-Za-z]\w*)?", re.ASCII)
"""What stands behind the key `call`: namespace, operation and overload, or one word."""


class ForeignProgramError(TraceLensGraphError):
    """A program is not as it was written."""


@dataclass(frozen=True)
class Program:
    """A kind of program.

    Attributes:
        kind: what it is called in the index of a folder.
        modules: modules of `replay/program/` that it is put together from.
        slots: names in them that hold data.
    """

    kind: str
    modules: tuple[str, ...]
    slots: tuple[str, ...]


PROGRAMS = (
    Program("op", ("values", "timing", "measure", "main"), ("OPERATION", "arguments")),
    Program("collectives", ("collectives",), ("COLLECTIVES", "ORIGIN")),
    Program("triton", ("values", "timing", "measure", "triton"), ("KERNEL", "arguments")),
    Program("sequence", ("values", "timing", "measure", "sequence"), ("SEQUENCE", "steps")),
    Program("instruction", ("jax_call",), ("INSTRUCTION",)),
    Program("batch", ("values", "timing", "measure", "batch"), ()),
)
"""All programs that are written; the last has no data, and so every rule that fills tensors."""

_CALLING = ("op", "sequence")
"""Kinds of programs whose data names the operations that they call."""


@dataclass(frozen=True)
class Checked:
    """What a program is.

    Attributes:
        kind: its kind, as in the index of a folder.
        calls: operations that it calls, in order: `aten.mm.default`.
    """

    kind: str
    calls: tuple[str, ...]


def check(source: str | bytes, replayers: Sequence[Replayer] = ()) -> Checked:
    """Make sure that a program is as it was written, and that it calls and imports nothing but what it may.

    Args:
        source: the program; bytes of a file, or text.
        replayers: custom operations that it may call; it may import their modules.

    Raises:
        ForeignProgramError: it is not; says what is wrong with it, and where.
    """
    tree = _parsed(source)
    defined = {name for node in tree.body for name in _names(node)}
    kind = next(one for one in PROGRAMS if defined >= set(one.slots))
    slots = {name: node for node in tree.body for name in _names(node) if name in kind.slots}
    needed = set() if kind.slots else set(parts(*kind.modules).rules)
    for node in slots.values():
        try:
            needed |= set(_needed(slot_of(node)))
        except (AssertionError, IndexError):
            raise _foreign(node, "it is more than data") from None
    trusted = {module for one in replayers for module in one.imports}
    if foreign := [one for node in slots.values() for one in _told(node, "imports") if one not in trusted]:
        raise ForeignProgramError(f"it imports {', '.join(foreign)}; give the extension that says so: --extension FILE")
    calls = tuple(one for node in slots.values() for one in _told(node, "call")) if kind.kind in _CALLING else ()
    if refused := next(filter(None, (why_not(one, replayers) for one in dict.fromkeys(calls))), ""):
        raise ForeignProgramError(refused)
    expected = _expected(kind, frozenset(needed))
    for node, (name, dump) in zip(tree.body[1:], expected, strict=False):
        if _dump(node, kind.slots) != dump:
            raise _foreign(node, f"{name or 'an import'} is not as this version of tracelens_graph writes it")
    if len(tree.body) - 1 != len(expected):
        raise ForeignProgramError(f"it has {len(tree.body)} statements and not {len(expected) + 1}")
    return Checked(kind.kind, calls)


def _parsed(source: str | bytes) -> ast.Module:
    data = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    if not data.isascii():
        raise ForeignProgramError("it has characters that are not ASCII")
    try:
        # Python itself reads a file by the encoding that a comment at its top declares.
        if tokenize.detect_encoding(io.BytesIO(data).readline)[0] != "utf-8":
            raise ForeignProgramError("it declares an encoding")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ForeignProgramError(f"it is no Python: {error}") from None
    if ast.get_docstring(tree, clean=False) is None:
        raise ForeignProgramError("it does not begin with a docstring")
    return tree


def _names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (one.id for one in targets if isinstance(one, ast.Name))


def _needed(data: ast.expr) -> Iterator[str]:
    """Names that data calls or fills tensors by; refuses what is not data."""
    match data:
        case ast.Constant(value=value) if type(value) in _CONSTANTS:
            pass
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)) if type(value) in (int, float):
            pass
        case ast.List(elts=entries) | ast.Tuple(elts=entries):
            for one in entries:
                yield from _needed(one)
        case ast.Dict(keys=keys, values=entries):
            for key, entry in zip(keys, entries, strict=True):
                if not isinstance(key, ast.Constant):
                    raise _foreign(data, "a key is no constant")
                yield from _needed(entry)
                if key.value == "call" and not _is_called(entry):
                    raise _foreign(entry, "it names no operation")
                if key.value == "imports" and not _are_modules(entry):
                    raise _foreign(entry, "it names no modules")
        case ast.Call(func=ast.Name(id=name), args=entries, keywords=keywords) if name in BUILDERS | _OF_PYTHON:
            yield from () if name in _OF_PYTHON else (name,)
            for one in [*entries, *(each.value for each in keywords)]:
                yield from _needed(one)
            for each in keywords:
                if each.arg == "fill" and isinstance(each.value, ast.Constant):
                    yield str(each.value.value)
                elif each.arg is None:
                    raise _foreign(data, "an argument is no constant")
            if name in ("tensor", "shared", "use") and not any(each.arg == "fill" for each in keywords):
                yield "normal"
        case _:
            raise _foreign(data, "it is no data")


def _is_called(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and bool(_CALLED.fullmatch(str(value.value)))


def _are_modules(value: ast.expr) -> bool:
    return isinstance(value, ast.List) and all(
        isinstance(one, ast.Constant) and is_module(one.value) for one in value.elts
    )


def _told(data: ast.stmt, name: str) -> Iterator[str]:
    """What stands behind a key of data, entries of a list one by one."""
    for node in ast.walk(data):
        if isinstance(node, ast.Dict):
            for key, entry in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == name:
                    entries = entry.elts if isinstance(entry, ast.List) else [entry]
                    yield from (str(one.value) for one in entries if isinstance(one, ast.Constant))


@lru_cache(maxsize=256)
def _expected(kind: Program, needed: frozenset[str]) -> list[tuple[str, str]]:
    """Name and syntax of the statements below the docstring."""
    known = parts(*kind.modules)
    if missing := sorted(needed - known.pieces.keys()):
        raise ForeignProgramError(f"nothing is called {missing[0]!a}")
    tree = ast.parse(program(known, "", dict.fromkeys(kind.slots, "None"), needed))
    return [(next(_names(node), ""), _dump(node, kind.slots)) for node in tree.body[1:]]


def _dump(node: ast.stmt, slots: tuple[str, ...]) -> str:
    """The syntax of a statement; data is taken out of it."""
    if any(name in slots for name in _names(node)):
        holder = node.body[-1] if isinstance(node, ast.FunctionDef) else node
        assert isinstance(holder, (ast.Assign, ast.AnnAssign, ast.Return))
        holder.value = ast.Constant(None)
    return ast.dump(node)


def _foreign(node: ast.AST, what: str) -> ForeignProgramError:
    return ForeignProgramError(f"line {getattr(node, 'lineno', 0)}: {what}")
