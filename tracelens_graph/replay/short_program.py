"""Programs that a person reads: one operation as plain torch, its tensors, and a loop that measures it.

All text of a trace in them is a literal of Python in ASCII, or stands in the heading in printable ASCII without quotes.
Tensors that have no plain words here (sparse, quantized, in memory of several types) are left to the program in full.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import cache
from importlib import resources
from itertools import groupby, takewhile
from textwrap import indent
from typing import Any

from tracelens_graph._version import __version__
from tracelens_graph.errors import NoShortProgramError
from tracelens_graph.perf.scalar_types import FLOATING, item_size
from tracelens_graph.replay.custom.program import preamble
from tracelens_graph.replay.program_text import ascii_text, dense_strides, heading_lines, program, unquoted
from tracelens_graph.replay.replay_plan import Argument, Named, ReplayPlan, TensorValue, Value, tensors

_WIDTH = 120
_UNBROKEN = 90
"""Characters of a list that is not broken over lines."""

_FUNCTIONS = frozenset((
    "abs", "add", "add.Tensor", "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "amax", "amin", "argmax", "baddbmm",
    "batch_norm", "bmm", "cat", "ceil", "clamp", "clamp_min", "clone", "conv1d", "conv2d", "conv3d", "convolution",
    "conv_transpose2d", "cos", "cumsum", "div.Tensor", "dot", "dropout", "embedding", "eq.Tensor", "erf", "exp",
    "floor", "flip", "gather", "ge.Tensor", "group_norm", "gt.Tensor", "index_select", "layer_norm", "le.Tensor",
    "lerp.Tensor", "log", "logsumexp", "log_softmax.int", "lt.Tensor", "masked_fill.Tensor", "matmul", "maximum",
    "mean", "mean.dim", "minimum", "mm", "mul.Tensor", "mv", "native_batch_norm", "native_dropout",
    "native_group_norm", "native_layer_norm", "neg", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "reciprocal", "relu",
    "roll", "round", "rsqrt", "scatter_add", "sigmoid", "sign", "sin", "softmax.int", "sort", "sqrt", "square",
    "stack", "sub.Tensor", "sum", "sum.dim_IntList", "tanh", "topk", "tril", "triu", "where.self",
))  # fmt: skip
"""Operations with overloads for which the function of `torch` with their name is the same call."""
_FUNCTIONAL = frozenset(("gelu", "linear", "scaled_dot_product_attention", "silu"))
"""The same of `torch.nn.functional`."""
_METHODS = frozenset((
    "add_.Tensor", "addcdiv_", "addcmul_", "clamp_", "copy_", "div_.Tensor", "exp_", "fill_.Scalar", "fill_.Tensor",
    "index_add_", "masked_fill_.Scalar", "mul_.Tensor", "relu_", "sub_.Tensor", "zero_",
))  # fmt: skip
"""The same of tensors' methods."""

_RESHAPING = frozenset((
    "squeeze_", "unsqueeze_", "transpose_", "t_", "swapaxes_", "swapdims_", "as_strided_", "resize_", "resize_as_",
    "set_", "detach_", "rename_",
))  # fmt: skip
"""Operations that give a tensor other sizes or another memory, which a copy of its values does not undo."""
_DRAWN = frozenset((
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128", "uint8", "int8", "int16", "int32", "int64",
))  # fmt: skip
"""Dtypes that torch draws numbers of; others are converted to."""
_SHORT_RUN = 8
"""Characters that a list has to become shorter by for what repeats in it to be written once."""
_OWN_NAMES = frozenset(("call", "device", "free", "gpu", "memory", "os", "results", "shape", "sys", "torch"))
"""Names that the program itself uses where it makes tensors."""

_DRIVER = (
    "driver=os.popen(", '"(nvidia-smi --query-gpu=driver_version," ', '"clocks.sm --format=csv,noheader || " ',
    '"cat /sys/module/amdgpu/version) 2>&-")', ".readline()", ".strip()",
)  # fmt: skip
"""What gives the version of a device's driver and, as far as something shows it, the clock: `580.65.06, 1980 MHz`."""
_LARGE = 1 << 28
"""Bytes of tensors from which on a program looks whether they fit before it makes them."""

_LOOP = "    # What stands below is in short programs, too.\n"
"""Line above that loop."""

_TEMPLATE = '''"""{heading}"""
import argparse, json, os, statistics, sys, timeit, torch
def made(device):
{made}
add, seed = (options := argparse.ArgumentParser(description=__doc__)).add_argument, torch.manual_seed(0)
devices = [f"{{kind}}:{{n}}" for kind in ("cuda", "xpu") for n in range(getattr(torch, kind).device_count())] + ["cpu"]
add("--device", default=devices[0], choices=devices, type=lambda of: of + ":0" * (of + ":0" in devices))
add("--json", nargs="?", const=False, type=lambda to: to if os.access(os.path.dirname(to) or ".", 2) > os.path.isdir(to)
    else options.error(f"--json: no file can be written as {{to}}")), add("--flush-l2", action="store_true")
{options}add("--iterations", type=lambda n: int(n) if int(n) > 0 else options.error("--iterations: 1 or more wanted"))
device, gpu = (asked := options.parse_args()).device, getattr(torch, asked.device.partition(":")[0])
{imports}(written, call), cache = made(device), torch.empty(asked.flush_l2 << 28, dtype=torch.int8, device=device)
def ready(before=[one.clone() for one in written]): cache.zero_(), [one.copy_(was) for one, was in zip(written, before)]
if __name__ == "__main__":
    calls = 10 + (asked.iterations or (10 if device == "cpu" else 100))  # the first ten warm up
{loop}
    low, median, high = statistics.quantiles(us[10:] if calls > 11 else us[10:] * 2, n=4, method="inclusive")
{result}
    print(json.dumps([result]) if asked.json is False else "{{op}} on {{device}}: median {{median_us:,.2f}} us "
        "of {{iterations}} calls, half in {{spread_us}}{rates}".format(**result))
    asked.json and print(json.dumps([result]), file=open(asked.json, "w"))
'''


def script(plan: ReplayPlan, full: bool = False) -> str:
    """The program of an operation: the short one, or that in full where it is asked for or there is no other."""
    return ("" if full else short_program(plan)) or program("full", plan.about, [plan.json()])


def short_program(plan: ReplayPlan) -> str:
    """The short program of an operation; empty where it has none."""
    try:
        return "" if plan.launch else _Program(plan).text()
    except NoShortProgramError:
        return ""


class _Program:
    def __init__(self, plan: ReplayPlan) -> None:
        self._plan = plan
        self._library = preamble({plan.op: (plan.schema, plan.imports)})
        self._lines: list[str] = []
        self._texts: dict[str, str] = {}
        """Tensors in shared memory -> their variables: what is written alike twice is one tensor."""

    def text(self) -> str:
        arguments = {one.name: self._argument(one) for one in self._plan.arguments}
        call = list(self._call(arguments, f"[{', '.join(self._written(arguments))}]"))
        imports = self._library or "".join(f"import {module}\n" for module in self._plan.imports)
        return _TEMPLATE.format(
            heading=self._heading(),
            options='add("--reference", action="store_true")\n' * ("--reference" in imports),
            imports=imports,
            made=indent("\n".join([*self._settings(), *self._lines, *call]), "    "),
            result=self._result(),
            rates=self._rates(),
            loop=_loop(),
        )

    def _heading(self) -> str:
        plan = self._plan
        needs = ", ".join(("PyTorch", *plan.imports))
        first = f"{ascii_text(plan.name)}: one operation of a trace, called again."
        first += f" Written by tracelens_graph {__version__}; needs {needs} alone."
        return unquoted("\n".join([first, *heading_lines(plan, _WIDTH, is_short=True)]))

    def _settings(self) -> Iterator[str]:
        """What is set before tensors are made, and that these fit if they are large."""
        for mode in self._plan.modes:
            if "=" in mode:
                yield f"torch.backends.{mode.replace('=', ' = ')}  # as traced"
        written = [one for one in self._plan.arguments if one.name in self._plan.restored]
        if (needed := self._plan.bytes + sum(one.bytes for of in written for one in tensors(of.value))) >= _LARGE:
            yield (
                'free = gpu.mem_get_info(device)[0] if device != "cpu" else os.sysconf("SC_PHYS_PAGES") * '
                'os.sysconf("SC_PAGE_SIZE")'
            )
            yield (
                f'free < {needed} and sys.exit(f"its tensors need {needed / 1e9:,.1f} GB, and {{device}} has '
                '{free / 1e9:,.1f} GB free")'
            )

    # --- the call ----------------------------------------------------------------------------------------------------

    def _call(self, arguments: dict[str, list[str]], written: str) -> Iterator[str]:
        """What returns the tensors that are written, and the call: a function, of several lines in modes of PyTorch."""
        plan = self._plan
        positional, keywords = plan.given
        name = f"{plan.op.removeprefix('aten::')}.{plan.overload}".rstrip(".")
        given = [arguments[one.name] for one in positional]
        if name in _METHODS and positional and positional[0].name == "self":
            function, given = f"{given[0][0]}.{name.partition('.')[0]}", given[1:]
        else:
            function = _function(plan, name)
            # What is no tensor is given by name, which says more.
            unnamed = len(list(takewhile(lambda one: one.type.startswith("Tensor"), positional)))
            unnamed = len(positional) if any(keyword.iskeyword(one.name) for one in positional) else unnamed
            given, keywords = given[:unnamed], [*positional[unnamed:], *keywords]
        if any(keyword.iskeyword(one.name) for one in keywords):
            raise NoShortProgramError
        given += [[f"{one.name}={arguments[one.name][0]}", *arguments[one.name][1:]] for one in keywords]
        made = [f"{function}(", *_separated(given), ")"]
        if plan.gradient:
            self._lines.append(_filled(["results = ", *made]))
            grads = {at: self._variable(f"grad_{at}", one) for at, one in enumerate(plan.gradient) if one is not None}
            is_one = plan.schema.endswith("-> Tensor")
            results = "results" if is_one else f"[{', '.join(f'results[{at}]' for at in grads)}]"
            followed = ", ".join(
                "*" * isinstance(one.value, tuple) + arguments[one.name][0]
                for one in plan.arguments
                if any(tensor.grad for tensor in tensors(one.value))
            )
            made = [
                f"torch.autograd.grad({results}, [{followed}], ",
                f"[{', '.join(grads.values())}], ",
                "retain_graph=True)",
            ]
        modes = [mode.partition(" ") for mode in plan.modes if "=" not in mode]
        if not modes:
            yield _filled([f"return {written}, lambda: ", *made])
            return
        yield "def call():"
        for depth, (mode, _, dtype) in enumerate(modes, 1):
            yield f"{'    ' * depth}with {_MODES[mode].format(dtype=dtype)}:"
        yield _filled(["return ", *made], "    " * (len(modes) + 1))
        yield f"return {written}, call"

    def _argument(self, one: Argument) -> list[str]:
        """An argument as pieces of text; tensors in it get variables."""
        value = one.value
        if isinstance(value, TensorValue):
            return [self._variable(self._name(one.name), value)]
        if isinstance(value, tuple) and any(tensors(value)):
            return [self._list(self._name(one.name), value)]
        return _pieces(value)

    def _name(self, name: str) -> str:
        """The variable of an argument."""
        taken = _OWN_NAMES | {one.name for one in self._plan.arguments} - {name}
        if name == "self" and "input" not in taken:
            return "input"
        return f"{name}_" if name in _OWN_NAMES or keyword.iskeyword(name) else name

    def _variable(self, name: str, tensor: TensorValue) -> str:
        text = self._tensor(tensor)
        if tensor.storage is not None and text in self._texts:
            return self._texts[text]
        self._texts[text] = name
        self._lines.append(f"{name} = {text}")
        return name

    def _list(self, name: str, values: Sequence[Value]) -> str:
        """The variable of a list of tensors."""
        texts = [self._tensor(one) if isinstance(one, TensorValue) else "None" for one in values]
        first, shapes = values[0], [one.shape for one in values if isinstance(one, TensorValue)]
        if len(set(texts)) == 1 < len(texts):
            self._lines.append(f"{name} = [{texts[0]} for _ in range({len(texts)})]")
        elif len(texts) > 2 and isinstance(first, TensorValue) and texts == [_made(first, str(one)) for one in shapes]:
            loop = [f"{name} = [{_made(first, 'shape')} for shape in [", *_separated(map(_pieces, shapes)), "]]"]
            self._lines.append(_filled(loop))
        elif len(texts) == 1:
            self._lines.append(f"{name} = [{texts[0]}]")
        else:
            self._lines += [f"{name} = [", *(f"    {text}," for text in texts), "]"]
        return name

    # --- tensors -----------------------------------------------------------------------------------------------------

    def _tensor(self, tensor: TensorValue) -> str:
        written = (one.value for one in self._plan.arguments if "!" in one.type)
        if not tensor.is_filled or (tensor.grad and any(tensor in tensors(value) for value in written)):
            raise NoShortProgramError
        text = _made(tensor) if tensor.storage is None else self._in_memory(tensor)
        return text + ".requires_grad_()" * tensor.grad + ".conj()" * tensor.conj

    def _in_memory(self, tensor: TensorValue) -> str:
        """A tensor in memory that it shares with others of its dtype and contents."""
        every = [one for argument in self._plan.arguments for one in tensors(argument.value)]
        sharing = [one for one in every if (one.storage, one.on_cpu) == (tensor.storage, tensor.on_cpu)]
        if any((one.dtype, one.fill) != (tensor.dtype, tensor.fill) for one in sharing):
            raise NoShortProgramError
        elements = max(one.bytes for one in sharing) // item_size(tensor.dtype)
        name = f"memory_{tensor.storage}{'_of_host' * tensor.on_cpu}"
        line = f"{name} = {_contents(tensor, f'({elements},)', elements)}"
        if line not in self._lines:
            self._lines.append(line)
        return f"{name}{_strided(tensor)}"

    def _written(self, arguments: dict[str, list[str]]) -> list[str]:
        """The tensors that get back before each call what they held."""
        plan = self._plan
        written = [one for one in plan.arguments if one.name in plan.restored and any(tensors(one.value))]
        if any(one in plan.keyword for one in written) or plan.op.rpartition("::")[2] in _RESHAPING:
            raise NoShortProgramError
        return ["*" * isinstance(one.value, tuple) + arguments[one.name][0] for one in written]

    # --- what is measured --------------------------------------------------------------------------------------------

    def _result(self) -> str:
        plan = self._plan
        traced, work = plan.traced, plan.work
        settings = [
            f'"{name}": {f"torch.backends.{name}" if is_set else True}'
            for name, is_set, _ in (one.partition("=") for one in plan.modes)
        ]
        result = {
            "op": _pieces(plan.name)[0] + ' + " (reference)" * ("--reference" in sys.argv)' * bool(self._library),
            "count": traced.calls, "trace": _pieces(traced.trace)[0],
            "percent": f"{traced.percent:.4g}", "traced_us": traced.median_us or None,
            "total_us": traced.total_us or None, "median_us": "median", "spread_us": "[round(low, 2), round(high, 2)]",
            "iterations": "calls - 10", "tflops": f"{work.flops:.0f} / 1e6 / median" if work.flops else None,
            "tbytes_per_s": f"{work.bytes:.0f} / 1e6 / median" if work.bytes else None,
            "torch": "torch.__version__", "device": 'gpu.get_device_name() if device != "cpu" else "cpu"',
            "library": "torch.version.hip or torch.version.cuda",
            "settings": f"{{{', '.join(settings)}}}",
        }  # fmt: skip
        words = {name: [text] if name in ("op", "trace", "settings") else re.split("(?<= )", str(text))
                 for name, text in result.items()}  # fmt: skip
        listed = [*([f"{name}={first}", *more] for name, (first, *more) in words.items()), _DRIVER]
        parts = ([f"{part}=", *_runs(getattr(plan.recorded, part))] for part in ("dims", "types", "strides", "values"))
        listed.append(["signature=dict(", *_separated(parts), ")"])
        return indent(_filled(["result = dict(", *_separated(listed), ")"]), "    ")

    def _rates(self) -> str:
        """What is printed of the rates, as far as the work is known."""
        rates = (("tflops", "TFLOP/s", self._plan.work.flops), ("tbytes_per_s", "TB/s", self._plan.work.bytes))
        return "".join(f", {{{name}:.3g}} {unit}" for name, unit, work in rates if work)


@cache
def _loop() -> str:
    """The loop of `replay.program.measure`, which measures calls."""
    return _source("measure").partition(_LOOP)[2].partition("    return us\n")[0].rstrip()


def _source(module: str) -> str:
    return (resources.files(__package__) / "program" / f"{module}.py").read_text(encoding="utf-8")


def _function(plan: ReplayPlan, name: str) -> str:
    """The function of an operation with its overload: the public one where that is the same call."""
    public = name.partition(".")[0]
    if name in _FUNCTIONS or name in _FUNCTIONAL:
        return f"torch.{public}" if name in _FUNCTIONS else f"torch.nn.functional.{public}"
    return f"torch.ops.{plan.op.replace('::', '.')}.{plan.overload or 'default'}"


_MODES = {
    "no_grad": "torch.no_grad()",
    "below_autograd": "torch._C._AutoDispatchBelowAutograd()",
    "autocast": "torch.autocast(torch.device(device).type, dtype=torch.{dtype})",
}

# --- tensors as text -----------------------------------------------------------------------------------------------


def _made(tensor: TensorValue, shape: str = "") -> str:
    """A tensor in memory of its own: dense, with its dimensions in another order, or of any strides."""
    if not tensor.offset and tensor.reach <= tensor.span:
        if tensor.strides in (None, dense_strides(tensor.shape)):
            return _contents(tensor, shape or str(tensor.shape), tensor.span)
        if order := _order(tensor):
            return _contents(tensor, str(tuple(tensor.shape[dim] for dim in order)), tensor.span) + _permuted(order)
    elements = max(tensor.offset + tensor.span, tensor.reach)
    return _contents(tensor, f"({elements},)", elements) + _strided(tensor)


def _strided(tensor: TensorValue) -> str:
    strides = dense_strides(tensor.shape) if tensor.strides is None else tensor.strides
    offset = f", {tensor.offset}" if tensor.offset else ""
    return f".as_strided({tensor.shape}, {strides}{offset})"


def _order(tensor: TensorValue) -> tuple[int, ...]:
    """The dimensions of a tensor that lies densely in memory, the outermost first; empty for any other."""
    strides = tensor.strides or ()
    order = tuple(sorted(range(len(strides)), key=lambda dim: (-strides[dim], dim)))
    dense = dense_strides([tensor.shape[dim] for dim in order])
    return order if dense == tuple(strides[dim] for dim in order) else ()


def _permuted(order: Sequence[int]) -> str:
    """What brings dimensions from the order in memory into their own."""
    back = [order.index(dim) for dim in range(len(order))]
    moved = [dim for dim, place in enumerate(back) if dim != place]
    if len(moved) == 2:
        return ".t()" if len(order) == 2 else f".transpose({moved[0]}, {moved[1]})"
    return f".permute({', '.join(map(str, back))})"


def _contents(tensor: TensorValue, shape: str, elements: int) -> str:
    """A dense tensor of some sizes that holds what its rule says."""
    rule, of = tensor.fill.rule, tensor.fill.options
    if rule == "matrices" and not shape.endswith(f"{of['size']}, {of['size']})"):
        raise NoShortProgramError
    is_converted = rule in ("normal", "integers") and tensor.dtype not in _DRAWN
    values = {
        "shape": shape, "elements": str(elements), "dtype": f"torch.{tensor.dtype}" * (not is_converted) or "None",
        "dtype.itemsize": str(item_size(tensor.dtype)), "dtype.is_floating_point": str(tensor.dtype in FLOATING),
        "device": '"cpu"' if tensor.on_cpu else "device", **{name: repr(value) for name, value in of.items()},
    }  # fmt: skip
    if rule == "uniform":
        values |= {end: repr(float(of.get(end, usual))) for end, usual in (("low", 0), ("high", 1))}  # type: ignore[arg-type]
    text = ast.unparse(_Written(rule, values).tree).replace("'cpu'", '"cpu"')
    text += f".to(torch.{tensor.dtype})" * is_converted
    return text.removesuffix(".to(torch.float32)") if rule in ("uniform", "matrices") else text


@cache
def _fills() -> dict[str, ast.Lambda]:
    """The rules of `replay.program.values`, as they are written there."""
    tree = ast.parse(_source("values"))
    (table,) = (one.value for one in tree.body if isinstance(one, ast.AnnAssign) and ast.unparse(one.target) == "FILLS")
    assert isinstance(table, ast.Dict)
    return {ast.literal_eval(key): made for key, made in zip(table.keys, table.values, strict=True)}  # type: ignore


class _Written(ast.NodeTransformer):
    """A rule with values in place of names; what is constant then is computed."""

    def __init__(self, rule: str, values: dict[str, str]) -> None:
        made = _fills()[rule]
        usual = zip(reversed(made.args.args), reversed(made.args.defaults), strict=False)
        self._values = {one.arg: ast.unparse(value) for one, value in usual} | values
        self.tree = self.visit(deepcopy(made.body))

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Name | ast.Attribute) and (value := self._values.get(ast.unparse(node))):
            return ast.parse(value, mode="eval").body
        node = self.generic_visit(node)
        match node:
            case ast.IfExp(test=ast.Constant(value=is_so)):
                return node.body if is_so else node.orelse
            case ast.BinOp(op=ast.Mod(), right=ast.Constant(value=int(row))) if row >= int(self._values["elements"]):
                return node.left
            case ast.Call(func=ast.Attribute(attr="reshape", value=flat), args=[shape]) if (
                ast.unparse(shape) == f"({self._values['elements']},)"
            ):
                return flat
            case ast.Call():
                node.keywords = [one for one in node.keywords if ast.unparse(one.value) != "None"]
        if isinstance(node, ast.BinOp | ast.BoolOp | ast.Call):
            with suppress(NameError):  # of torch, which has no number yet
                computed = compile(ast.fix_missing_locations(ast.Expression(node)), "", "eval")
                return ast.Constant(eval(computed, {"max": max, "__builtins__": {}}))
        return node


# --- other text ----------------------------------------------------------------------------------------------------


def _pieces(value: Value) -> list[str]:
    """A value as text in pieces, between which a line may be broken."""
    if isinstance(value, tuple):
        return _joined(["[", *_separated(map(_pieces, value)), "]"])
    if isinstance(value, Named) and value.kind == "device":
        return ["device" if value.name == "device" else '"cpu"']
    if isinstance(value, Named) and value.kind == "generator":
        return ["torch.Generator(device)"]
    if isinstance(value, Named):
        if not value.name:
            raise NoShortProgramError
        return [f"torch.{value.name}"]
    if isinstance(value, complex):
        return [f"complex({_pieces(value.real)[0]}, {_pieces(value.imag)[0]})"]
    if isinstance(value, float) and not math.isfinite(value):
        return [f'float("{value}")']
    text = ascii(value)
    return [f'"{text[1:-1]}"' if text[0] == "'" and not {'"', "\\"} & set(text) else text]


def _runs(values: Value) -> list[str]:
    """A list as text in pieces, in which what comes several times in a row is written once: `[8] + 3 * [None]`."""
    if not isinstance(values, tuple):
        return _pieces(values)
    runs = [(pieces, len(list(same))) for pieces, same in groupby(map(_runs, values))]
    terms: list[list[str]] = []
    for is_alone, some in groupby(runs, lambda run: len("".join(run[0])) * (run[1] - 1) < _SHORT_RUN):
        if is_alone:
            terms.append(["[", *_separated(pieces for pieces, count in some for _ in range(count)), "]"])
        else:
            terms += [[f"{count} * [", *pieces, "]"] for pieces, count in some]
    return list(_separated(terms, " + ")) or ["[]"]


def _joined(pieces: list[str]) -> list[str]:
    """Pieces as a single one, unless that is long."""
    return ["".join(pieces)] if sum(map(len, pieces)) <= _UNBROKEN else pieces


def _separated(entries: Iterable[Sequence[str]], by: str = ", ") -> Iterator[str]:
    """The pieces of entries, with something between these."""
    listed = list(entries)
    for at, pieces in enumerate(listed):
        yield from pieces[:-1]
        yield pieces[-1] + by * (at < len(listed) - 1)


def _filled(pieces: Iterable[str], before: str = "") -> str:
    """Pieces one behind another on as few lines as they fit on in a function; but the first, lines are further in."""
    lines, line = [], before
    for piece in pieces:
        if len(line) + len(piece.rstrip()) > _WIDTH - 4 and line.strip():
            lines.append(line.rstrip())
            line = before + "    "
        line += piece
    return "\n".join([*lines, line.rstrip()])
