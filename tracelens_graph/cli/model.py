"""`tracelens-graph model`: what an operation costs and how fast a device can do it, without a trace.

Every formula named here is a command: its parameters are the options, and its docstring is the help.
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
from tracelens_graph.cli.common import write_table
from tracelens_graph.cli.durations import to_ns
from tracelens_graph.cli.options import Format, FormatOption
from tracelens_graph.cli.program import Group

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

_PARAGRAPHS = re.compile(r"\n[ \t]*\n")
_SECTION = re.compile(r"^(?:Args|Attributes|Returns|Raises):$", re.MULTILINE)
_EXPLAINED = re.compile(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {8}.*)*)", re.MULTILINE)
_TAG = re.compile(r"\[(?=[a-z#/@])", re.IGNORECASE)
_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)
_MOST_SIZES = 8


class _Commands(Mapping[str, Any]):
    """Commands that are made when they are asked for: formulas take time to import."""

    def __init__(self, others: Mapping[str, Any]) -> None:
        self._made = dict(others)
        self._names = [*FORMULAS, *others]

    def __getitem__(self, name: str) -> Any:
        if name in FORMULAS and name not in self._made:
            self._made[name] = typer.main.get_command(command_of(name, getattr(perf, FORMULAS[name])))
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class _Group(Group):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands(self.commands)  # type: ignore[assignment]  # it is only read


app = typer.Typer(cls=_Group, no_args_is_help=True)


@app.callback(
    help="What an operation costs at least, and how fast devices can do it.\n\n"
    "Example: tracelens-graph model gemm --m 4096 --n 4096 --k 4096 --arch h100-sxm"
)
def _model() -> None:
    pass


@app.command(help="List the devices that are known, or all that is known of one, and where it stands.")
def architectures(
    arch: Annotated[
        str | None, typer.Argument(metavar="[NAME|FILE]", show_default=False, help="A device, or a file of one.")
    ] = None,
    format: FormatOption = Format.table,
) -> None:
    """Print devices as a table."""
    from tracelens_graph.perf.architecture_tables import device, devices
    from tracelens_graph.perf.devices import architecture, shipped

    write_table(devices(shipped().values()) if arch is None else device(architecture(arch)), format)


def _report(
    name: str,
    formula: Callable[[], Any],
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
    if measured is not None and not arch:
        raise typer.BadParameter("--measured needs --arch")
    measured_us = None if measured is None else to_ns(measured, "--measured") / 1e3
    from tracelens_graph.perf.cost import CannotModel
    from tracelens_graph.perf.devices import architecture
    from tracelens_graph.perf.roofs import roof_table

    devices = [architecture(one) for one in arch or ()]
    try:
        cost = formula()
        if min(cost.flops, cost.bytes or 0) < 0:
            raise CannotModel("a size is below 0")
        title = f"{name}: " + ", ".join(f"{size} {value}" for size, value in cost.params.items() if value is not None)
        table = roof_table(cost, devices, measured_us, title)
    except CannotModel as reason:
        raise typer.BadParameter(str(reason)) from None
    except ArithmeticError:
        raise typer.BadParameter("nothing can be computed of these sizes: one is 0, or beyond all measure") from None
    write_table(table, format)


def command_of(name: str, formula: Callable[..., Any]) -> typer.Typer:
    """The program of one command that a formula makes.

    Args:
        name: its name.
        formula: a function that gives a Cost. Parameters become options, a group of them (a dataclass) one for each
            field; those of types that no option has keep their defaults.
    """
    found = list(_inputs(formula))
    inputs = {one.path[-1]: one for one in found}
    own = list(inspect.signature(_report, eval_str=True).parameters.values())[2:]
    assert len(inputs) == len(found), f"{name}: two values would have one option"
    assert inputs.keys().isdisjoint(one.name for one in own), f"{name}: an option of every formula is hidden"
    parameters = [*map(_Input.parameter, inputs.values()), *(one.replace(kind=one.KEYWORD_ONLY) for one in own)]

    def command(**given: Any) -> None:
        values = {one.path: one.read(given.pop(option)) for option, one in inputs.items()}
        _report(name, lambda: _called(formula, values), **given)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    program = typer.Typer(add_completion=False)
    program.command(name, help=_documentation(formula)[0])(command)
    return program


@dataclass(frozen=True)
class _Input:
    """A value that a formula is given, and the option for it.

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
    def flag(self) -> str:
        """The option's name."""
        return f"--{self.path[-1].replace('_', '-')}"

    def parameter(self) -> inspect.Parameter:
        """The parameter of a command."""
        kind, default, empty = self.kind, self.default, inspect.Parameter.empty
        metavar = {int: "N", float: "X"}.get(kind)
        if kind in _texts():
            (metavar, _), kind = _texts()[kind], str
            default = empty if default is empty else None
        if self.optional and default is empty:
            default = None
        option = typer.Option(
            *([] if default is True else [self.flag]),
            metavar=metavar,
            min=0 if kind in (int, float) else None,
            show_default=default not in (None, "", False),
            help=self.help,
        )
        annotation = Annotated[kind | None if default is None else kind, option]  # type: ignore[valid-type]
        return inspect.Parameter(self.path[-1], inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

    def read(self, given: Any) -> Any:
        """The value for the formula.

        Raises:
            typer.BadParameter: what was given is none.
        """
        if given is None:
            return None if self.default is inspect.Parameter.empty else self.default
        if self.kind in _texts():
            return _texts()[self.kind][1](given, self.flag)
        if given and "dtype" in self.path[-1]:
            _check_type(given, self.flag)
        return given


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
    documented = _TAG.sub(r"\\[", inspect.getdoc(of) or "")
    text = _SECTION.split(documented)[0].strip()
    help_of = {
        name: " ".join(meaning.split())
        for names, meaning in _EXPLAINED.findall(documented)
        for name in names.split(", ")
    }
    return "\n\n".join(" ".join(part.split()) for part in _PARAGRAPHS.split(text)), help_of
