"""Schemas of PyTorch's operators: the table that ships, and what one schema says of its parameters.

The table holds the schemas of aten and prims of several versions of PyTorch, each text once, so that a call can be
planned without PyTorch and whatever version recorded it. `docs/make_op_schemas.py` makes it.
"""

from __future__ import annotations

import gzip
import re
from ast import literal_eval
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files

from tracelens_graph.errors import TraceLensGraphError
from tracelens_graph.execution.op_schemas import split_arguments

TABLE = "op_schemas.txt.gz"
"""File of the table, beside this module: per line first version, last version and schema, divided by tabs."""

_HEAD = re.compile(r"([A-Za-z_]\w*(?:::\w+)+)(?:\.(\w+))?\(")
_ALIAS = re.compile(r"\([^()]*\)")
_TYPE = re.compile(r"(?P<base>[\w.]+)(?P<inner>\?)?(?P<list>\[\d*\])?(?P<outer>\?)?\Z")
_WORD = re.compile(r"[A-Za-z_]\w*\Z")

_WORDS = {"Mean": 1, "Sum": 2, "float": 6, "double": 7, "int": 3, "long": 4, "bool": 11, "strided": 0,
          "contiguous_format": 0, "preserve_format": 1, "channels_last": 2}  # fmt: skip
"""Words that stand for numbers as defaults in `native_functions.yaml`."""

REACHES_OUT = "it reaches files or other processes"
"""Why an operation cannot be called again."""
_PLACES = re.compile(
    r"(.*_)?(file|files|path|paths|dir|directory|folder|url|uri|host|address|cmd|command|program|library|script|code)"
    r"(_?name)?|fname|filenames?"
)
"""Names of parameters that say where something is, or what is to be run, if they are texts."""
_TEXTS = frozenset({"str", "Storage", "Stream"})
_VERBS = re.compile(r"_?(save|load|open|import|system|exec|eval|fork|spawn)(_.*)?")
"""Names of operations that read, write or start something, if they take a text."""

Default = None | bool | int | float | str | list[int] | list[float] | list[bool]


@dataclass(frozen=True)
class Parameter:
    """A parameter of an operator.

    Attributes:
        name: its name.
        type: its type without aliases: `Tensor`, `SymInt[2]`, `Tensor?[]`, `ScalarType?`.
        declared: its type as the schema writes it: `Tensor(a!)`.
        default: its default as the schema writes it; None where it has none.
        is_keyword: whether it is given by keyword only.
    """

    name: str
    type: str
    declared: str
    default: str | None = None
    is_keyword: bool = False

    @property
    def is_written(self) -> bool:
        """Whether the operator writes it."""
        return "!" in self.declared

    @cached_property
    def kind(self) -> TypeParts:
        """The parts of the type."""
        return type_parts(self.type)

    @cached_property
    def default_value(self) -> Default:
        """The default as a value; None also where there is none."""
        if self.default is None:
            return None
        value = literal(self.default)
        length = self.kind.length
        return [value] * length if length and self.kind.is_list and type(value) in (int, bool, float) else value  # type: ignore[return-value]


@dataclass(frozen=True)
class TypeParts:
    """The parts of a type.

    Attributes:
        base: the type of one element: `Tensor`, `SymInt`.
        is_list: whether it is a list.
        length: fixed length of a list, 0 where it has none; one number then stands for as many.
        is_optional: whether None is a value.
        has_optional_elements: whether elements of the list may be None.
    """

    base: str
    is_list: bool = False
    length: int = 0
    is_optional: bool = False
    has_optional_elements: bool = False


@dataclass(frozen=True)
class Schema:
    """A schema of an operator.

    Attributes:
        op: name with the namespace: `aten::mm`.
        overload: empty for the default one.
        parameters: its parameters in order, those by keyword last.
        text: the schema as PyTorch writes it.
        first, last: versions of PyTorch that have it, of those looked at; empty where not from the table.
    """

    op: str
    overload: str
    parameters: tuple[Parameter, ...]
    text: str
    first: str = ""
    last: str = ""

    @property
    def qualified(self) -> str:
        """Name with the overload: `aten::add.Tensor`."""
        return f"{self.op}.{self.overload}" if self.overload else self.op

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(one.name for one in self.parameters)

    @cached_property
    def written(self) -> frozenset[str]:
        """Names of the parameters that the operator writes."""
        return frozenset(one.name for one in self.parameters if one.is_written)


@lru_cache(maxsize=1024)
def type_parts(text: str) -> TypeParts:
    """The parts of a type as schemas write it."""
    found = _TYPE.match(text)
    if not found:
        raise TraceLensGraphError(f"no type of a schema: {text!r}")
    brackets, inner, outer = found["list"], bool(found["inner"]), bool(found["outer"])
    length = int(brackets[1:-1] or 0) if brackets else 0
    return TypeParts(found["base"], bool(brackets), length, outer or (inner and not brackets), inner and bool(brackets))


def literal(text: str) -> Default:
    """The value of a default."""
    if text in ("None", "True", "False") or not _WORD.match(text):
        return literal_eval(text)
    return _WORDS.get(text, text)


@lru_cache(maxsize=4096)
def parse(text: str, first: str = "", last: str = "") -> Schema:
    """A schema from its text.

    Args:
        text: such as `aten::mm(Tensor self, Tensor mat2) -> Tensor`.
        first, last: versions that have it.

    Raises:
        TraceLensGraphError: it is none.
    """
    head = _HEAD.match(text)
    close = text.rfind(") ->")
    if not head or close < 0:
        raise TraceLensGraphError(f"no schema of an operator: {text[:100]!r}")
    parameters = []
    is_keyword = False
    for part in split_arguments(text[head.end() : close]):
        if part == "*":
            is_keyword = True
            continue
        declared, equals, default = part.partition("=")
        written, _, name = declared.strip().rpartition(" ")
        plain = _ALIAS.sub("", written)
        if not _TYPE.match(plain):
            raise TraceLensGraphError(f"no parameter of an operator: {part!r} in {text[:100]!r}")
        parameters.append(Parameter(name, plain, written, default if equals else None, is_keyword))
    return Schema(head[1], head[2] or "", tuple(parameters), text, first, last)


@lru_cache(maxsize=1)
def _table() -> Mapping[str, list[tuple[str, str, str]]]:
    """Name -> (first version, last version, schema) of each of its schemas."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    text = gzip.decompress((files("tracelens_graph.replay") / TABLE).read_bytes()).decode()
    for line in text.splitlines():
        first, last, schema = line.split("\t")
        name = schema[: schema.index("(")].partition(".")[0]
        found.setdefault(name, []).append((first, last, schema))
    return found


@lru_cache(maxsize=4096)
def schemas_of(op: str) -> tuple[Schema, ...]:
    """All schemas of an operator in the table: its overloads, in the order of versions, newest first.

    Args:
        op: name with the namespace.
    """
    found = [parse(schema, first, last) for first, last, schema in _table().get(op, ())]
    return tuple(sorted(found, key=lambda one: version_key(one.last), reverse=True))


def version_key(version: str) -> tuple[int, ...]:
    """What sorts versions such as `2.15`."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def reaches_out(schema: Schema) -> bool:
    """Whether an operation reads, writes or starts what is outside of its tensors, as far as its schema shows."""
    texts = [one for one in schema.parameters if one.kind.base in _TEXTS]
    verb = _VERBS.fullmatch(schema.op.rpartition("::")[2])
    return any(verb or _PLACES.fullmatch(one.name) for one in texts)


def why_not(op: str, overload: str = "", custom: Sequence[str] = ()) -> str:
    """Why a program may not call an operation; empty where it may.

    Args:
        op: its name with the namespace.
        overload: the overload, empty for the default one.
        custom: schemas of custom operations that the user knows of.
    """
    call = f"{op}.{overload}".rstrip(".")
    own = [one for text in custom if (one := parsed(text)) and one.op == op]
    known = [one for one in (*schemas_of(op), *own) if one.overload == overload]
    if not known:
        return f"{call} is neither an operation of PyTorch nor one of the extension that is given"
    return f"{call}: {REACHES_OUT}" if any(map(reaches_out, known)) else ""


def parsed(text: str) -> Schema | None:
    """A schema from a text that somebody wrote by hand; None where it is none."""
    try:
        return parse(text.strip())
    except (TraceLensGraphError, ValueError, SyntaxError):
        return None
