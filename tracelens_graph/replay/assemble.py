"""Programs put together from the functions in `replay/program/`: only those that a program needs, and its data.

The folder's modules are read as source, never imported. A few of their names are **slots**: a module-level value, or
a function that does nothing but return. A program is the source of what it needs with data in its slots, written in
one pass, so that data is never looked at again.
"""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import resources

_OURS = "tracelens_graph"
_START = 'if __name__ == "__main__":\n    sys.exit(main())\n'
_ALWAYS = "from __future__ import annotations"
_FRAMEWORKS = frozenset({"jax", "torch"})
_QUOTED = re.compile(r'[\\"]')


@dataclass(frozen=True)
class Piece:
    """A statement of a module: a function, a class or a value.

    Attributes:
        name: what it defines.
        source: its text.
        node: its syntax tree.
        needs: names in it that it does not define itself.
    """

    name: str
    source: str
    node: ast.stmt

    @cached_property
    def needs(self) -> frozenset[str]:
        """Names that the statement reads."""
        return frozenset(names_read(self.source))

    def filled(self, data: str) -> str:
        """The source with data in the slot."""
        slot = slot_of(self.node)
        lines = self.source.splitlines(keepends=True)
        first, last = slot.lineno - self.node.lineno, (slot.end_lineno or 0) - self.node.lineno
        before = "".join(lines[:first]) + lines[first][: slot.col_offset]
        return before + data + lines[last][slot.end_col_offset :] + "".join(lines[last + 1 :])


def slot_of(node: ast.stmt) -> ast.expr:
    """Where data goes: the value of an assignment, or what a function returns at its end."""
    if isinstance(node, ast.FunctionDef):
        node = node.body[-1]
    assert isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return))
    assert node.value is not None
    return node.value


def names_read(source: str) -> Iterator[str]:
    """Names that a statement does not define itself: those of its module, and Python's own."""
    tables = [symtable.symtable(source, "", "exec")]
    while tables:
        table = tables.pop()
        inner = table.get_type() != "module"
        yield from (one.get_name() for one in table.get_symbols() if one.is_global() or not inner)
        tables += table.get_children()


def parameters(function: ast.stmt) -> frozenset[str]:
    """Names of a function's parameters."""
    assert isinstance(function, ast.FunctionDef)
    return frozenset(one.arg for one in function.args.args)


@dataclass(frozen=True)
class Parts:
    """What programs are put together from.

    Attributes:
        pieces: name -> statement, in the order of modules and of their lines.
        imports: name -> module that it is imported from, and what it is called there; that is empty for a module.
    """

    pieces: dict[str, Piece] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)

    def read(self, source: str) -> None:
        """Take in a module.

        Raises:
            ValueError: it has a name that another module has.
        """
        lines = source.splitlines(keepends=True)
        for node in ast.parse(source).body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self._import(node)
            elif name := _defined(node):
                if name in self.pieces:
                    raise ValueError(f"two modules define {name}")
                first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
                text = "".join(lines[first - 1 : node.end_lineno]).rstrip() + "\n"
                self.pieces[name] = Piece(name, text, ast.parse(text).body[0])

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        if module == "__future__" or module.split(".")[0] == _OURS:
            return
        for one in node.names:
            self.imports[one.asname or one.name] = (module, one.name) if module else (one.name, "")

    def needed(self, roots: Iterable[str]) -> list[Piece]:
        """Statements that define these names, and all that those need, in order.

        Raises:
            KeyError: a root is not there.
        """
        found: set[str] = set()
        left = list(roots)
        for root in left:
            self.pieces[root]  # a root that is missing is an error, a name within may be Python's own
        while left:
            name = left.pop()
            if name in found or name not in self.pieces:
                continue
            found.add(name)
            left += self.pieces[name].needs
        return [piece for name, piece in self.pieces.items() if name in found]

    @cached_property
    def rules(self) -> dict[str, frozenset[str]]:
        """Names of functions that fill tensors -> the options of each."""
        return {
            name: parameters(piece.node) - {"flat"}
            for name, piece in self.pieces.items()
            if any(isinstance(one, ast.Name) and one.id == "rule" for one in getattr(piece.node, "decorator_list", ()))
        }

    def import_lines(self, pieces: Iterable[Piece]) -> str:
        """Imports that statements need, as the linter orders them."""
        wanted = {name for piece in pieces for name in piece.needs} | {"sys"}
        whole = sorted({module for name, (module, what) in self.imports.items() if name in wanted and not what})
        taken: dict[str, list[str]] = {}
        for name, (module, what) in self.imports.items():
            if name in wanted and what:
                taken.setdefault(module, []).append(what)
        others = sorted(_FRAMEWORKS.intersection(whole)) or ["torch"]
        standard = [f"import {module}" for module in whole if module not in _FRAMEWORKS]
        standard += [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(taken.items())]
        return "\n".join([_ALWAYS, "", *standard, "", *(f"import {module}" for module in others)]) + "\n"


def _defined(node: ast.stmt) -> str:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return node.name
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return ""


@lru_cache(maxsize=8)
def parts(*modules: str) -> Parts:
    """The statements of modules of `replay/program/`, by their names: `parts("values", "timing", "main")`."""
    read = Parts()
    folder = resources.files(__package__) / "program"
    for module in modules:
        read.read((folder / f"{module}.py").read_text(encoding="utf-8"))
    return read


def program(parts: Parts, about: str, slots: Mapping[str, str], roots: Iterable[str]) -> str:
    """The source of a program.

    Args:
        parts: what it is put together from.
        about: its docstring, ASCII; the program's `--help`.
        slots: name of a slot -> source of its data. Slots come first, so that data is what one reads first.
        roots: names of what data needs; `main` is always there.
    """
    pieces = parts.needed(["main", *slots, *roots])
    data = [(parts.pieces[name].node, parts.pieces[name].filled(source)) for name, source in slots.items()]
    code = [(piece.node, piece.source) for piece in pieces if piece.name not in slots]
    return "".join([_docstring(about), parts.import_lines(pieces), *_spaced([*data, *code]), "\n\n", _START])


def _spaced(statements: Iterable[tuple[ast.stmt, str]]) -> Iterator[str]:
    above = ""
    for node, source in statements:
        kind = "code" if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else "value"
        yield {"": "\n" if kind == "value" else "\n\n", kind: "" if kind == "value" else "\n\n"}.get(above, "\n\n")
        yield source
        above = kind


def _docstring(text: str) -> str:
    return '"""' + _QUOTED.sub(r"\\\g<0>", text) + '"""\n\n'
