"""`tracelens-graph model`: what an operation costs and how fast a device can do it, without a trace.

A formula is a function of `tracelens_graph.perf`: its parameters are the sizes, and its docstring explains them.
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

from tracelens_graph.cli.common import write_table
from tracelens_graph.cli.durations import to_ns
from tracelens_graph.cli.options import Format, FormatOption
from tracelens_graph.utils.suggest import hint

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
"""Command -> formula."""

_DEVICES = "architectures"
"""What stands in the place of a formula to list devices."""

_PARAGRAPHS = re.compile(r"\n[ \t]*\n")
_SECTION = re.compile(r"^(?:Args|Attributes|Returns|Raises):$", re.MULTILINE)
_EXPLAINED = re.compile(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {8}.*)*)", re.MULTILINE)
_SIZE = re.compile(r"([A-Za-z][\w-]*)=(.*)", re.DOTALL)
_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)
_MOST_SIZES = 8


def model(
    name: Annotated[str, typer.Argument(metavar="FORMULA", show_default=False, help=f"{', '.join(FORMULAS)}.")],
    sizes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SIZE=VALUE]...", show_default=False, help="Sizes; without any they are listed."),
    ] = None,
    arch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE",
            show_default=False,
            help="A device, such as h100-sxm, or a file that describes one; may be given again.",
        ),
    ] = None,
    measured: Annotated[
        str | None, typer.Option(metavar="TIME", show_default=False, help="A measured time to compare with: 95us.")
    ] = None,
    format: FormatOption = Format.table,
) -> None:
    """Show what an operation costs at least, and how fast devices can do it.

    `model architectures` lists the devices that are known, `model architectures NAME` all that is known of one.

    Example: tracelens-graph model gemm

    Example: tracelens-graph model gemm m=4096 n=4096 k=4096 --arch h100-sxm
    """
    given = list(sizes or ())
    if name == _DEVICES:
        _list_devices(given, format)
    elif name not in FORMULAS:
        raise typer.BadParameter(f"there is no formula {name!r}; {hint(name, [*FORMULAS, _DEVICES])}")
    elif not given:
        typer.echo(_usage(name, formula_of(name)))
    else:
        _report(name, formula_of(name), given, arch or (), measured, format)


def formula_of(name: str) -> Callable[..., Any]:
    """The function that a name of `FORMULAS` stands for; importing it takes time."""
    from tracelens_graph import perf

    found: Callable[..., Any] = getattr(perf, FORMULAS[name])
    return found


def _list_devices(names: Sequence[str], format: Format) -> None:
    from tracelens_graph.perf.architecture_tables import device, devices
    from tracelens_graph.perf.devices import architecture, shipped

    if len(names) > 1:
        raise typer.BadParameter(f"{_DEVICES} takes one device, not {len(names)}")
    write_table(device(architecture(names[0])) if names else devices(shipped().values()), format)


def _report(
    name: str, formula: Callable[..., Any], sizes: Sequence[str], arch: Sequence[str], measured: str | None,
    format: Format,
) -> None:  # fmt: skip
    if measured is not None and not arch:
        raise typer.BadParameter("--measured needs --arch")
    measured_us = None if measured is None else to_ns(measured, "--measured") / 1e3
    from tracelens_graph.perf.cost import CannotModel
    from tracelens_graph.perf.devices import architecture
    from tracelens_graph.perf.roofs import roof_table

    devices = [architecture(one) for one in arch]
    values = values_of(name, formula, sizes)
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
    write_table(table, format)


def values_of(name: str, formula: Callable[..., Any], words: Sequence[str]) -> dict[tuple[str, ...], Any]:
    """Arguments of a formula by path, from `size=value` words or, as before, `--size value` words.

    Raises:
        typer.BadParameter: a size is unknown, missing, given twice or no value of its type.
    """
    inputs = {one.name: one for one in _inputs(formula)}
    given: dict[str, str] = {}
    for size, text in _pairs(words, inputs):
        if size not in inputs:
            raise typer.BadParameter(f"{name} has no size {size!r}; {hint(size, inputs)}")
        if size in given:
            raise typer.BadParameter(f"{size} is given twice")
        given[size] = text
    if missing := [f"{one.name}={one.word}" for one in inputs.values() if one.is_needed and one.name not in given]:
        raise typer.BadParameter(f"{name} also needs {' '.join(missing)}")
    return {one.path: one.read(given[size]) if size in given else one.fallback for size, one in inputs.items()}


def _pairs(words: Sequence[str], inputs: Mapping[str, _Input]) -> Iterator[tuple[str, str]]:
    rest = iter(words)
    for word in rest:
        if found := _SIZE.fullmatch(word.removeprefix("--")):
            yield found[1].replace("_", "-"), found[2]
        elif not word.startswith("--"):
            raise typer.BadParameter(f"{word!r} is no size=value, such as m=4096")
        elif (flag := word[2:].removeprefix("no-")) in inputs and inputs[flag].kind is bool:
            yield flag, "false" if word.startswith("--no-") else "true"
        else:
            yield word[2:], next(rest, "")


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
    def name(self) -> str:
        """What people call it."""
        return self.path[-1].replace("_", "-")

    @property
    def is_needed(self) -> bool:
        """Whether the formula cannot do without it."""
        return self.default is inspect.Parameter.empty and not self.optional

    @property
    def fallback(self) -> Any:
        """What the formula gets where nothing is given."""
        return None if self.default is inspect.Parameter.empty else self.default

    @property
    def word(self) -> str:
        """What its value looks like."""
        if get_origin(self.kind) is Literal:
            return "|".join(map(str, get_args(self.kind)))
        return _texts()[self.kind][0] if self.kind in _texts() else _WORDS[self.kind]

    def read(self, text: str) -> Any:
        """The value for the formula.

        Raises:
            typer.BadParameter: the text is none.
        """
        if self.kind in _texts():
            return _texts()[self.kind][1](text, self.name)
        try:
            value = _READERS[self.kind](text) if self.kind in _READERS else text
        except (KeyError, ValueError):
            raise typer.BadParameter(f"{self.name}={text}: {self.word} is wanted") from None
        if get_origin(self.kind) is Literal and value not in get_args(self.kind):
            raise typer.BadParameter(f"{self.name}={text}: {hint(text, get_args(self.kind))}")
        if self.kind in (int, float) and not value >= 0:
            raise typer.BadParameter(f"{self.name}={text}: is below 0")
        if "dtype" in self.path[-1]:
            _check_type(value, self.name)
        return value


_WORDS = {int: "N", float: "X", bool: "true|false", str: "TEXT"}
_READERS: Mapping[Any, Callable[[str], Any]] = {
    int: int, float: float, bool: lambda text: {"true": True, "false": False}[text.lower()],
}  # fmt: skip


def _usage(name: str, formula: Callable[..., Any]) -> str:
    """What a formula computes, and its sizes, a line each."""
    inputs = list(_inputs(formula))
    spelled = {one: f"{one.name}={one.word}" for one in inputs}
    width = max(map(len, spelled.values()))
    lines = [
        f"  {spelled[one]:{width}}  {one.help}"
        + (f" [{one.default}]" if one.default not in (inspect.Parameter.empty, None, "", False) else "")
        + (" (needed)" if one.is_needed else "")
        for one in inputs
    ]
    needed = " ".join(spelled[one] for one in inputs if one.is_needed)
    return "\n".join([_documentation(formula)[0], "", f"tracelens-graph model {name} {needed}", "", *lines])


def _inputs(of: Callable[..., Any], above: tuple[str, ...] = ()) -> Iterator[_Input]:
    """What a formula, or a dataclass, is made from, as far as options can give it."""
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
    """Types that options take as text -> the word for it, and what makes the value of it."""
    from tracelens_graph.perf.arguments import Tensor

    def tensor(text: str, option: str) -> Tensor:
        dtype, colon, shape = text.rpartition(":")
        if colon:
            _check_type(dtype, option)
        return Tensor(_sizes(shape, option), dtype or "bf16")

    return {
        tuple[int, ...]: ("N,N,...", _sizes),
        Sequence[int]: ("N,N,...", _sizes),
        Tensor: ("[TYPE:]N,N,...", tensor),
    }


def _sizes(text: str, option: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > _MOST_SIZES or not all(_WHOLE.fullmatch(part) for part in parts):
        raise typer.BadParameter(f"{option}: {text!r} is no list of sizes such as 32,64,56,56")
    return tuple(map(int, parts))


def _check_type(dtype: str, option: str) -> None:
    from tracelens_graph.perf.cost import CannotModel
    from tracelens_graph.perf.dtypes import element_type

    try:
        element_type(dtype)
    except CannotModel as reason:
        raise typer.BadParameter(f"{option}: {reason}") from None


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
