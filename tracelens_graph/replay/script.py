"""The program of a plan: one file that needs torch alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tracelens_graph._version import __version__
from tracelens_graph.replay.arguments import Named, TensorValue, Value, tensors
from tracelens_graph.replay.assemble import parts, program
from tracelens_graph.replay.literals import display, identifier, literal
from tracelens_graph.replay.replay_plan import ReplayPlan, Traced
from tracelens_graph.replay.schemas import parse

MODULES = ("values", "timing", "measure", "main")
"""What the program of one operation is put together from."""

_WIDTH = 80
_LONGEST = 600
"""Characters of an entry of the heading."""
_INDENT = "    "
_LABEL = 11
"""Characters of a label of the heading, with the space behind it."""
_LONGEST_KERNEL = 200
_CUT = "..."
_MUCH = 0.1
"""From what part of the median on the time of a call is another."""
_SPACES, _SEPARATORS = re.compile(" +"), re.compile(r"::|[,<(_]")
_MOST_KERNELS = 6
"""Names of kernels in the heading; the program's data has them all."""

_FILLED = ("tensor", "shared")
"""Builders that fill by a rule."""
_ONLY_WRITE = frozenset({
    "fill_", "zero_", "copy_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "geometric_", "cauchy_",
    "log_normal_",
})  # fmt: skip


def script(plan: ReplayPlan) -> str:
    """The source of a program that calls the operation again and times it.

    It is ASCII, holds nothing of the model, no path and no stack, and passes `check.check`. `--help` lists its options.
    """
    slots = {"OPERATION": literal(operation(plan)), "arguments": arguments_source(plan)}
    return program(parts(*MODULES), heading(plan), slots, roots(plan))


def operation(plan: ReplayPlan) -> dict[str, Any]:
    """What the program knows of the operation besides its arguments; the names are those of its results."""
    recorded = plan.recorded
    return {
        "op": plan.op,
        "call": f"{plan.op.replace('::', '.')}.{plan.overload or 'default'}",
        "signature": {
            "dims": recorded.dims, "types": recorded.types, "strides": recorded.strides, "values": recorded.values,
        },
        "flops": plan.work.flops,
        "bytes": plan.work.bytes,
        "roof_us": plan.work.roof_us,
        "traced_us": plan.traced.median_us,
        "kernels": plan.traced.kernels,
        "assumed": plan.assumed,
        **({"imports": plan.imports} if plan.imports else {}),
        **({"modes": plan.modes} if plan.modes else {}),
    }  # fmt: skip


def arguments_source(plan: ReplayPlan) -> str:
    """The arguments as calls of builders: a tuple of a list and a dictionary."""
    written = written_arguments(plan)
    positional = [source(one.value, one.name in written, _INDENT * 2) for one in plan.positional]
    keyword = [f"{literal(one.name)}: {source(one.value, one.name in written, _INDENT * 2)}" for one in plan.keyword]
    return display("[", positional, "]", _INDENT) + ", " + display("{", keyword, "}", _INDENT)


def written_arguments(plan: ReplayPlan) -> frozenset[str]:
    """Names of the arguments that the operation reads and writes, so that a second call would see what the first did.

    That is what the schema says is written, but for operations that only write, and for `out` arguments that have
    elements: those without any grow, and the next call is to find them empty again.
    """
    if plan.op.rpartition("::")[2] in _ONLY_WRITE:
        return frozenset()
    empty = {one.name for one in plan.keyword if isinstance(one.value, TensorValue) and 0 in one.value.shape}
    return frozenset(
        one.name
        for one in parse(plan.schema).parameters
        if one.is_written and (not one.is_keyword or one.name in empty)
    )


def source(value: Value, is_restored: bool = False, indent: str = _INDENT) -> str:
    """An argument as a literal, or as a call of a builder.

    Args:
        value: the argument.
        is_restored: whether its tensors get back between calls what they held.
        indent: what further lines begin with.
    """
    if isinstance(value, tuple):
        return display("[", [source(one, is_restored, indent + _INDENT) for one in value], "]", indent)
    if isinstance(value, Named):
        return f"{value.kind}({literal(value.name) if value.name else ''})"
    if isinstance(value, TensorValue):
        call = _tensor(value, indent)
        return f"restored({call})" if is_restored else call
    return literal(value)


def _tensor(value: TensorValue, indent: str) -> str:
    told = dict(value.told)
    entries = [literal(told.pop(name)) for name in ("shape", "dtype")]
    if told.get("strides") == dense_strides(value.shape):
        del told["strides"]
    return display(
        f"{value.builder}(", [*entries, *(f"{identifier(k)}={literal(v)}" for k, v in told.items())], ")", indent
    )


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a contiguous tensor, as torch counts them: a size of 0 counts as 1."""
    steps = [1]
    for size in reversed(shape[1:]):
        steps.append(steps[-1] * max(size, 1))
    return tuple(reversed(steps))[-len(shape) :] if shape else ()


def roots(plan: ReplayPlan) -> list[str]:
    """Names of the builders and fill rules that the plan's arguments need."""
    written = written_arguments(plan)
    restored = any(one.name in written and any(tensors(one.value)) for one in plan.arguments)
    return sorted(called(one.value for one in plan.arguments) | ({"restored"} if restored else set()))


def called(values: Iterable[Value]) -> set[str]:
    """Names of the builders and fill rules that values need."""
    found: set[str] = set()
    for value in leaves(values):
        if isinstance(value, TensorValue):
            found |= {value.builder, value.fill.rule} if value.builder in _FILLED else {value.builder}
        elif isinstance(value, Named):
            found.add(value.kind)
    return found


def leaves(values: Iterable[Value]) -> Iterator[Value]:
    """All values, those in lists instead of the lists."""
    for value in values:
        if isinstance(value, tuple):
            yield from leaves(value)
        else:
            yield value


def heading(plan: ReplayPlan) -> str:
    """What the program's docstring says: the operation, its arguments, what was traced, what is assumed."""
    traced = plan.traced
    lines = [f"{''.join(printable(plan.op))}: one operation of a trace, called again by itself.", ""]
    lines += entry("arguments", ", ".join(f"{one.name} {words(one.value)}" for one in plan.arguments) or "none")
    lines += entry("traced", ", ".join(_times(traced)))
    for name in traced.kernels[:_MOST_KERNELS]:
        lines += entry("kernel", name, _LONGEST_KERNEL)
    if len(traced.kernels) > _MOST_KERNELS:
        lines += entry("", f"and {len(traced.kernels) - _MOST_KERNELS} more")
    for label, notes in (("runs under", plan.modes), ("assumed", plan.assumed), ("note", plan.notes)):
        for note in notes:
            lines += entry(label, note)
    lines += ["", written_by(plan.imports)]
    return "\n".join(lines) + "\n"


def _times(traced: Traced) -> Iterator[str]:
    """Number of calls, their GPU time, and the GPU, as far as they are known."""
    yield f"{traced.calls:,} call" + "s" * (traced.calls != 1)
    if traced.kernels and traced.calls == 1:
        yield f"{traced.kernel_us:,.2f} us of GPU time"
    elif traced.kernels:
        total = f"{traced.total_us:,.1f} us of GPU time in all, " if traced.total_us else ""
        yield f"{total}median {traced.median_us:,.2f} us a call"
        if abs(traced.kernel_us - traced.median_us) > _MUCH * traced.median_us:
            yield f"{traced.kernel_us:,.2f} us in the one that is shown here"
    if traced.gpu:
        yield f"on {traced.gpu}"


def written_by(imports: Sequence[str] = ()) -> str:
    """The end of a heading: how the program is run, who wrote it, and what it needs.

    Args:
        imports: modules that it imports beside PyTorch.
    """
    return (
        "python FILE runs it, python FILE --json RESULTS keeps what it measured, too, and\n"
        "python FILE --help lists all options.\n\n"
        f"Written by tracelens_graph {__version__}; needs PyTorch and {', '.join(imports) or 'nothing else'}."
    )


def words(value: Value) -> str:
    """An argument in a few words: `bfloat16[4096, 1024]`, `True`, `3 x float32[8]`."""
    if isinstance(value, TensorValue):
        shape = f"{value.dtype}[{', '.join(map(str, value.shape))}]"
        uneven = value.strides is not None and value.strides != dense_strides(value.shape)
        return shape + f" with strides {list(value.strides or ())}" * uneven
    if isinstance(value, tuple):
        parts = [words(one) for one in value]
        if len(set(parts)) == 1 and len(parts) > 2 and isinstance(value[0], TensorValue):
            return f"{len(parts)} x {parts[0]}"
        return f"[{', '.join(parts)}]"
    return value.name or value.kind if isinstance(value, Named) else str(value)


def entry(label: str, text: str, longest: int = _LONGEST) -> list[str]:
    """A line of the heading, wrapped; whatever the text holds, it is printable ASCII on lines of its own.

    Args:
        label: what stands before it.
        text: the text; none gives no line.
        longest: characters from which on it is cut, with a mark.
    """
    body = "".join(printable(text)).replace("%(", "% (").strip()  # argparse fills in what stands behind that
    if len(body) > longest:
        body = body[: _break(body, longest - len(_CUT))].rstrip() + _CUT
    lines: list[str] = []
    while body:
        at = _break(body, _WIDTH - _LABEL)
        lines.append(f"{label if not lines else '':<{_LABEL}}{body[:at].rstrip()}")
        body = body[at:].lstrip()
    return lines


def _break(text: str, width: int) -> int:
    """Where a text is broken: at a space, else behind what separates the parts of C++ names, else anywhere."""
    if len(text) <= width:
        return len(text)
    for places in (_SPACES, _SEPARATORS):
        at = max((one.end() for one in places.finditer(text[: width + 1]) if one.start() < width), default=0)
        if at > width // 2:
            return min(at, width)
    return width


def printable(text: str) -> Iterator[str]:
    """Characters of a text, those that are not printable ASCII written out."""
    return (one if " " <= one <= "~" else ascii(one)[1:-1] for one in text)
