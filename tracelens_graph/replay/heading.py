"""The heading of a program: what it calls, what was traced, what is assumed."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Sequence

from tracelens_graph._version import __version__
from tracelens_graph.replay.arguments import Named, TensorValue, Use, Value
from tracelens_graph.replay.replay_plan import ReplayPlan, Traced

_WIDTH = 80
_LONGEST = 600
"""Characters of an entry of the heading."""
_LABEL = 11
"""Characters of a label of the heading, with the space behind it."""
_LONGEST_KERNEL = 200
_CUT = "..."
_NOT_IN_NAMES = re.compile(r"[^0-9A-Za-z]+")
_MUCH = 0.1
"""From what part of the median on the time of a call is another."""
_SPACES, _SEPARATORS = re.compile(" +"), re.compile(r"::|[,<(_]")
_MOST_KERNELS = 6
"""Names of kernels in the heading; the program's data has them all."""


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a contiguous tensor, as torch counts them: a size of 0 counts as 1."""
    steps = [1]
    for size in reversed(shape[1:]):
        steps.append(steps[-1] * max(size, 1))
    return tuple(reversed(steps))[-len(shape) :] if shape else ()


def identifier(text: str) -> str:
    """A name for a function or file made of any text: ASCII letters, digits and single underscores; never a keyword.

    `aten::mm` becomes `aten_mm`. Different texts can have one name.
    """
    name = _NOT_IN_NAMES.sub("_", text).strip("_")[:60]
    if not name or name[0].isdigit():
        name = f"op_{name}".rstrip("_")
    return f"{name}_" if keyword.iskeyword(name) or keyword.issoftkeyword(name) else name


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
    if isinstance(value, Use):
        return words(value.tensor)
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
