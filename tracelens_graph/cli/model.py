"""`tracelens-graph model`: what an operation costs and how fast a device can do it, without a trace.

Every formula named here is a word of the command: its parameters are the sizes, and its docstring is the help.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer

from tracelens_graph import perf
from tracelens_graph.cli import completing
from tracelens_graph.cli.options import argument, option, to_ns
from tracelens_graph.cli.outputs import Outputs
from tracelens_graph.cli.shown import Shown, print_table, print_wrapped
from tracelens_graph.cli.tables import OneTable
from tracelens_graph.utils.suggest import did_you_mean, hint, there_are

FORMULAS = {
    "gemm": "gemm",
    "grouped-gemm": "grouped_gemm",
    "convolution": "convolution",
    "convolution-backward": "convolution_backward",
    "attention": "attention",
    "norm": "normalization",
    "rms-norm": "rms_norm",
    "moe": "fused_moe",
    "unary": "unary",
    "binary": "binary",
    "reduce": "reduction",
    "softmax": "softmax",
    "cross-entropy": "cross_entropy",
    "embedding": "rows_by_index",
    "causal-conv1d": "causal_conv1d",
    "mamba2": "mamba2",
}
"""Word of the command -> formula."""

_PARAGRAPHS = re.compile(r"\n[ \t]*\n")
_SECTION = re.compile(r"^(?:Args|Attributes|Returns|Raises):$", re.MULTILINE)
_EXPLAINED = re.compile(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {8}.*)*)", re.MULTILINE)
_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)
_MOST_SIZES = 8
_DEVICES = "architectures"
_WORDS_OF_SWITCHES = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_KINDS = {int: "N", float: "X", bool: "yes|no", str: "TEXT"}


def model(
    formula: Annotated[
        str, argument(metavar="FORMULA", autocompletion=completing.tables, help="The operation, or architectures.")
    ],
    sizes: Annotated[
        list[str] | None, argument(metavar="KEY=VALUE...", help="Its sizes; without any they are listed.")
    ] = None,
    *,
    arch: Annotated[
        list[str] | None,
        option(
            metavar="NAME|FILE", help="A device, such as h100-sxm, or a file that describes one; may be given again."
        ),
    ] = None,
    measured: Annotated[str | None, option(metavar="TIME", help="A measured time to compare with: 95us.")] = None,
    outputs: OneTable,
) -> None:
    """Show what an operation costs at least, and how fast devices can do it.

    Formulas are FORMULAS. `model FORMULA` lists the sizes of one, `model architectures` the known devices, and
    `model architectures NAME` all figures of one with their sources.

    Example: tracelens-graph model gemm m=4096 n=4096 k=4096 --arch h100-sxm

    Example: tracelens-graph model convolution x=2,8,16,16 w=4,8,3,3 padding=1,1 dtype=fp32
    """
    if formula == _DEVICES:
        _architectures(sizes or [], outputs)
        return
    if formula not in FORMULAS:
        raise typer.BadParameter(f"there is no formula {formula!r}; {hint(formula, [*FORMULAS, _DEVICES])}")
    function = getattr(perf, FORMULAS[formula])
    if not sizes:
        _print_sizes(formula, function, outputs)
        return
    _report(formula, function, _given(formula, function, sizes), arch or [], measured, outputs)


model.__doc__ = (model.__doc__ or "").replace("FORMULAS", ", ".join(FORMULAS), 1)


def _architectures(names: Sequence[str], outputs: Outputs) -> None:
    """Print devices as a table."""
    from tracelens_graph.perf.devices import architecture, shipped
    from tracelens_graph.perf.roofs import device, devices

    if len(names) > 1:
        raise typer.BadParameter(f"{_DEVICES} takes one device, not {len(names)}")
    print_table(Shown(device(architecture(names[0])) if names else devices(shipped().values())), outputs)


def _print_sizes(name: str, formula: Callable[..., Any], outputs: Outputs) -> None:
    """Print what a formula says of itself and of its sizes."""
    from tracelens_graph.tables.table import Column, Table

    about = {
        "size": Column("key of the size"),
        "value": Column("what it takes"),
        "default": Column("what it is unless given"),
        "meaning": Column("what it means"),
    }
    rows = sizes_of(formula)
    table = Table("sizes", {key: [row[i] for row in rows] for i, key in enumerate(about)}, about, title=name)
    if outputs.to_screen:
        print_wrapped(*description_of(formula).split("\n\n"))
        print()
    print_table(Shown(table), outputs)


def description_of(formula: Callable[..., Any]) -> str:
    """What a formula says of itself."""
    return _documentation(formula)[0]


def sizes_of(formula: Callable[..., Any]) -> list[tuple[str, str, str, str]]:
    """Key, form of the value, default and meaning of each size of a formula."""
    return [(one.key, one.form, one.default_text, one.help) for one in _inputs(formula)]


def _given(name: str, formula: Callable[..., Any], words: Sequence[str]) -> dict[tuple[str, ...], Any]:
    """The values of all sizes of a formula, by path.

    Raises:
        typer.BadParameter: a word is no size of it, or a size is missing.
    """
    inputs = {one.key: one for one in _inputs(formula)}
    texts: dict[str, str] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals:
            raise typer.BadParameter(f"{word!r} is no size such as m=4096")
        if key not in inputs:
            meant = did_you_mean(key, inputs) or there_are(inputs, len(inputs))
            raise typer.BadParameter(f"{name} has no size {key!r}; {meant}")
        if key in texts:
            raise typer.BadParameter(f"{key} is given twice")
        texts[key] = text
    if missing := [key for key, one in inputs.items() if one.is_required and key not in texts]:
        raise typer.BadParameter(f"{name} needs {', '.join(f'{key}=' for key in missing)}")
    return {one.path: one.read(texts.get(key)) for key, one in inputs.items()}


def _report(
    name: str,
    formula: Callable[..., Any],
    values: Mapping[tuple[str, ...], Any],
    arch: Sequence[str],
    measured: str | None,
    outputs: Outputs,
) -> None:
    if measured is not None and not arch:
        raise typer.BadParameter("--measured needs --arch")
    measured_us = None if measured is None else to_ns(measured, "--measured") / 1e3
    from tracelens_graph.perf.cost import CannotModel
    from tracelens_graph.perf.devices import architecture
    from tracelens_graph.perf.roofs import roof_table

    devices = [architecture(one) for one in arch]
    try:
        cost = _called(formula, values)
        if min(cost.flops, cost.bytes or 0) < 0:
            raise CannotModel("a size is below 0")
        title = f"{name}: " + ", ".join(f"{size} {value}" for size, value in cost.params.items() if value is not None)
        table = roof_table(cost, devices, measured_us, title)
    except CannotModel as reason:
        raise typer.BadParameter(str(reason)) from None
    except ArithmeticError:
        raise typer.BadParameter("nothing can be computed of these sizes: one is 0, or beyond all measure") from None
    print_table(Shown(table), outputs)


@dataclass(frozen=True)
class _Input:
    """A value that a formula is given.

    Attributes:
        path: name of the parameter; for a field of a dataclass, that of the parameter and its own.
        kind: type of the value.
        optional: whether there may be none.
        default: what the formula takes where nothing is given.
        help: what the formula says of it.
    """

    path: tuple[str, ...]
    kind: Any
    optional: bool
    default: Any
    help: str

    @property
    def key(self) -> str:
        """What it is called on the command line."""
        return self.path[-1]

    @property
    def is_required(self) -> bool:
        """Whether it must be given."""
        return self.default is inspect.Parameter.empty and not self.optional

    @property
    def form(self) -> str:
        """What a value of it looks like."""
        if get_origin(self.kind) is Literal:
            return "|".join(map(str, get_args(self.kind)))
        return _KINDS[self.kind] if self.kind in _KINDS else _texts()[self.kind][0]

    @property
    def default_text(self) -> str:
        """Its default, for people."""
        if self.is_required:
            return "required"
        if self.default in (None, "", (), inspect.Parameter.empty):
            return ""
        if isinstance(self.default, bool):
            return "yes" if self.default else "no"
        return ",".join(map(str, self.default)) if isinstance(self.default, tuple) else str(self.default)

    def read(self, text: str | None) -> Any:
        """The value for the formula.

        Raises:
            typer.BadParameter: the text is none.
        """
        if text is None:
            return None if self.default is inspect.Parameter.empty else self.default
        if self.kind in _texts():
            return _texts()[self.kind][1](text, self.key)
        if get_origin(self.kind) is Literal:
            return self._checked(text, get_args(self.kind))
        if self.kind is bool:
            return _WORDS_OF_SWITCHES[self._checked(text.lower(), _WORDS_OF_SWITCHES)]
        if self.kind in (int, float):
            return self._number(text)
        if text and "dtype" in self.key:
            _check_type(text, self.key)
        return text

    def _checked(self, text: str, known: Sequence[str] | Mapping[str, Any]) -> str:
        if text not in known:
            raise typer.BadParameter(f"{self.key}: {text!r} is not one of {', '.join(known)}")
        return text

    def _number(self, text: str) -> int | float:
        try:
            number: int | float = self.kind(text)
        except ValueError:
            raise typer.BadParameter(f"{self.key}: {text[:40]!r} is no {_NUMBERS[self.kind]}") from None
        if not number >= 0:
            raise typer.BadParameter(f"{self.key}: {text} is below 0")
        return number


_NUMBERS = {int: "whole number", float: "number"}


def _inputs(of: Callable[..., Any], above: tuple[str, ...] = ()) -> Iterator[_Input]:
    """What a formula, or a dataclass, is made from, as far as text can give it."""
    help_of = _documentation(of)[1]
    for parameter in inspect.signature(of, eval_str=True).parameters.values():
        kinds = [parameter.annotation]
        if get_origin(parameter.annotation) in (Union, UnionType):
            kinds = list(get_args(parameter.annotation))
        plain = [kind for kind in kinds if kind is not NoneType]
        path, kind = (*above, parameter.name), plain[0]
        if len(plain) == 1 and (kind in (int, float, bool, str, *_texts()) or get_origin(kind) is Literal):
            yield _Input(path, kind, len(kinds) > 1, parameter.default, help_of.get(parameter.name, ""))
        elif len(kinds) == 1 and isinstance(kind, type) and is_dataclass(kind):
            yield from _inputs(kind, path)


def _called(formula: Callable[..., Any], values: Mapping[tuple[str, ...], Any]) -> Any:
    """What a function, or a dataclass, makes of values by path."""
    annotations = {name: one.annotation for name, one in inspect.signature(formula, eval_str=True).parameters.items()}
    given: dict[str, Any] = {}
    for name in dict.fromkeys(path[0] for path in values):
        below = {path[1:]: value for path, value in values.items() if path[0] == name}
        given[name] = below[()] if () in below else _called(annotations[name], below)
    return formula(**given)


@cache
def _texts() -> Mapping[Any, tuple[str, Callable[[str, str], Any]]]:
    """Types that are written in a form of their own -> the form, and what reads it."""
    from tracelens_graph.perf.arguments import Tensor

    def tensor(text: str, key: str) -> Tensor:
        dtype, colon, shape = text.rpartition(":")
        if colon:
            _check_type(dtype, key)
        return Tensor(_sizes(shape, key), dtype or "bf16")

    return {
        tuple[int, ...]: ("N,N,...", _sizes),
        Sequence[int]: ("N,N,...", _sizes),
        Tensor: ("[TYPE:]N,N,...", tensor),
    }


def _sizes(text: str, key: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > _MOST_SIZES or not all(_WHOLE.fullmatch(part) for part in parts):
        raise typer.BadParameter(f"{key}: {text!r} is no list of sizes such as 32,64,56,56")
    return tuple(map(int, parts))


def _check_type(dtype: str, key: str) -> None:
    from tracelens_graph.perf.cost import CannotModel
    from tracelens_graph.perf.scalar_types import element_type

    try:
        element_type(dtype)
    except CannotModel as reason:
        raise typer.BadParameter(f"{key}: {reason}") from None


def _documentation(of: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """What a formula says of itself, and of each of its parameters."""
    documented = inspect.getdoc(of) or ""
    text = _SECTION.split(documented)[0].strip()
    help_of = {
        name: " ".join(meaning.split())
        for names, meaning in _EXPLAINED.findall(documented)
        for name in names.split(", ")
    }
    return "\n\n".join(" ".join(part.split()) for part in _PARAGRAPHS.split(text)), help_of
