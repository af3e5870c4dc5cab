"""Programs as text: a heading, a plan as JSON, and one fixed runner.

A trace is untrusted. Its text stands in the JSON alone, in which nothing can end the string around it, and in the
heading, in printable ASCII without quotes. The runner is the same in every program of a kind.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from operator import methodcaller
from textwrap import wrap
from typing import Any, ClassVar, Literal

from tracelens_graph._version import __version__
from tracelens_graph.replay.custom.program import preamble
from tracelens_graph.replay.replay_plan import Named, ReplayPlan, TensorValue, Use, Value
from tracelens_graph.tables.names import short_name
from tracelens_graph.utils.texts import cut_end

ProgramKind = Literal["op", "full", "sequence", "collectives", "instruction"]
"""What a program runs: one operation in short (`short_program`), operations in full one after another, several in their
order with shared tensors, collectives, or instructions of XLA."""

_CORE = ("report", "values", "kernel", "measure")
_MODULES: dict[str, tuple[str, ...]] = {
    "full": (*_CORE, "operations"),
    "sequence": (*_CORE, "sequence"),
    "collectives": ("report", "collectives"),
    "instruction": ("report", "instruction"),
}
"""Kind of a program -> modules of `replay/program/` whose text is its runner."""

_CUT = "\n# What stands below goes into programs.\n"
"""Line of such a module under its imports and the plan that it is tested with."""
_IMPORT = re.compile(r"^(?:import|from) (?!__future__|tracelens_graph).*", re.MULTILINE)
_ESCAPED = re.compile(r'\\(["\\])')
WIDTH = 100
"""Characters of a line of data."""

_HEADING_WIDTH = 80
_LABEL = 11
"""Characters of a label of a heading, with the space behind it."""
_LONGEST, _LONGEST_KERNEL = 600, 200
"""Characters of an entry of a heading."""
_MOST_KERNELS = 6
"""Names of kernels in a heading; the program's data has them all."""
_memory_work = methodcaller("startswith", ("Memcpy", "Memset"))
"""Whether GPU work is a copy or a fill, which says less than a kernel."""
_MUCH = 0.1
"""From what part of the median on the time of a call is another."""


class HasProgram:
    """A plan that becomes a program.

    Attributes:
        kind: what its program runs.
    """

    kind: ClassVar[ProgramKind]

    @property
    def about(self) -> str:
        """The heading of its program."""
        raise NotImplementedError

    def json(self) -> Any:
        """The plan as plain data, from which its program makes everything."""
        raise NotImplementedError

    def script(self) -> str:
        """Its program: one file, which needs PyTorch, or JAX, alone."""
        return program(self.kind, self.about, self.json())


@dataclass(frozen=True)
class LeftOut:
    """What a program of several calls does not run.

    Attributes:
        what: name of the operation, or kind of the collective.
        reason, remedy: why, and what would help; the latter may be empty.
        calls: how many there are.
        percent: share of the time of all.
    """

    what: str
    reason: str
    remedy: str
    calls: int
    percent: float

    @property
    def line(self) -> str:
        """In words."""
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.percent:.1f} %: {self.calls:,} x {self.what}: {self.reason}{remedy}"


def left_out(found: Mapping[tuple[str, str, str], Sequence[float]], total: float) -> tuple[LeftOut, ...]:
    """What, reason and remedy -> times of the calls, as entries, by their share of a total."""
    order = sorted(found.items(), key=lambda one: -sum(one[1]))
    return tuple(LeftOut(*key, len(times), 100 * sum(times) / total if total else 0.0) for key, times in order)


def program(kind: str, about: str, plan: Any) -> str:
    """A program: one file, which needs a framework and nothing of this package.

    Args:
        kind: what it runs.
        about: its heading, which is the program's `--help`, too.
        plan: what it runs, as JSON's values; lists, one below another, are tuples or lists.
    """
    return (
        f'r"""{unquoted(about)}\n"""\n\nfrom __future__ import annotations\n\nimport json\n\n'
        f'PLAN = json.loads(r"""\n{json_text(plan)}\n""")\n\n{_defined(plan)}{runner(kind)}'
    )


def _defined(plan: Any) -> str:
    """What defines operations of a plan that come along, by their references."""
    calls = [one for one in (plan if isinstance(plan, list | tuple) else [plan]) if isinstance(one, dict)]
    found = preamble(
        {one["op"]: (one["schema"], one.get("imports", ())) for one in calls if {"op", "schema"} <= one.keys()},
        imports=False,
    )
    return f"import sys\n\nimport torch\n{found}\n" if found else ""


@cache
def runner(kind: str) -> str:
    """The text of all programs of a kind that stands below their plans."""
    imports, bodies = set(), []
    for module in _MODULES[kind]:
        source = (resources.files(__package__) / "program" / f"{module}.py").read_text(encoding="utf-8")
        head, _, body = source.partition(_CUT)
        imports |= set(_IMPORT.findall(head))
        bodies.append(body.strip("\n"))
    start = 'if __name__ == "__main__":\n    sys.exit(main())\n'
    return "\n\n\n".join(["\n".join(sorted(imports)), *bodies, start])


def json_text(value: Any) -> str:
    """JSON in ASCII, without a backslash before a quote or another one: lists and objects on one line, if they fit."""
    return laid_out(value, lambda one: _ESCAPED.sub(lambda found: f"\\u{ord(found[1]):04x}", json.dumps(one)))


def laid_out(value: Any, text: Callable[[Any], str], indent: str = "") -> str:
    """A value as text, lists and objects that do not fit on a line one entry below another.

    Args:
        value: the value.
        text: a value on one line.
        indent: what stands before each line but the first.
    """
    line = text(value)
    if len(indent) + len(line) <= WIDTH or not value or not isinstance(value, dict | list | tuple):
        return line
    inner = indent + " "
    if isinstance(value, dict):
        entries = [f"{text(key)}: {laid_out(one, text, inner)}" for key, one in value.items()]
        opening, closing = "{}"
    else:
        entries = [laid_out(one, text, inner) for one in value]
        opening, closing = "[]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(entries) + f"\n{indent}{closing}"


# --- words ---------------------------------------------------------------------------------------------------------


def unquoted(text: str) -> str:
    """A text that can stand in a docstring: printable ASCII, without what ends one, or what argparse fills in."""
    return re.sub(r"[^\n !#-[\]-~]", "'", text.rstrip("\n")).replace("%(", "% (")


def identifier(text: str) -> str:
    """A name for a function or file made of any text: ASCII letters, digits and single underscores; never a keyword.

    `aten::mm` becomes `aten_mm`. Different texts can have one name.
    """
    name = re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_")[:60]
    if not name or name[0].isdigit():
        name = f"op_{name}".rstrip("_")
    return f"{name}_" if keyword.iskeyword(name) or keyword.issoftkeyword(name) else name


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a contiguous tensor, as torch counts them: a size of 0 counts as 1."""
    steps = [1]
    for size in reversed(shape[1:]):
        steps.append(steps[-1] * max(size, 1))
    return tuple(reversed(steps))[-len(shape) :] if shape else ()


def heading(plan: ReplayPlan) -> str:
    """The heading of a program in full: the operation, its arguments, what was traced, what is assumed."""
    lines = [f"{ascii_text(plan.name)}: one operation of a trace, called again by itself.", ""]
    lines += entry("arguments", ", ".join(f"{one.name} {words(one.value)}" for one in plan.arguments) or "none")
    sources = (plan.launch.source,) if plan.launch else ()
    return "\n".join([*lines, *heading_lines(plan), "", written_by(plan.imports + sources)]) + "\n"


def heading_lines(plan: ReplayPlan, width: int = _HEADING_WIDTH, is_short: bool = False) -> Iterator[str]:
    """What a trace says of a call, and what is assumed, as lines of a heading; a short one has one line of kernels."""
    kernels = list(plan.traced.kernels[:_MOST_KERNELS])
    if is_short and kernels:
        # Of several the one that counts is seldom the first, so that all should fit.
        names = kernels if len(kernels) == 1 else dict.fromkeys(map(short_name, sorted(kernels, key=_memory_work)))
        kernels = [cut_end("; ".join(names), width - _LABEL - 3)]
    elif len(plan.traced.kernels) > _MOST_KERNELS:
        kernels.append(f"and {len(plan.traced.kernels) - _MOST_KERNELS} more")
    for label, notes in {
        "traced": [", ".join(_times(plan, is_short))], "kernel": kernels, "runs under": plan.modes,
        "assumed": plan.assumed, "note": plan.notes,
    }.items():  # fmt: skip
        for note in notes:
            yield from entry(label, note, _LONGEST_KERNEL if label == "kernel" else _LONGEST, width)


def _times(plan: ReplayPlan, is_short: bool) -> Iterator[str]:
    """Number of calls, their GPU time, and the GPU, as far as they are known; in short without the call of the plan."""
    traced = plan.traced
    of = f" of {traced.within}" if traced.within not in ("", plan.name) else ""
    yield f"{traced.calls:,} call{'s' * (traced.calls != 1)}{of}"
    if traced.kernels and traced.calls == 1:
        yield f"{traced.kernel_us:,.2f} us of GPU time"
    elif traced.kernels:
        total = f"{traced.total_us:,.1f} us of GPU time in all, " if traced.total_us else ""
        yield f"{total}median {traced.median_us:,.2f} us a call"
        if not is_short and abs(traced.kernel_us - traced.median_us) > _MUCH * traced.median_us:
            yield f"{traced.kernel_us:,.2f} us in the one that is shown here"
    if traced.gpu:
        yield f"on {traced.gpu}"


def written_by(imports: Sequence[str] = (), needs: str = "PyTorch") -> str:
    """The end of a heading: how the program is run, who wrote it, and what it needs beside a framework."""
    return (
        "python FILE runs it, python FILE --json RESULTS keeps what it measured, too, and\n"
        "python FILE --help lists all options.\n\n"
        f"Written by tracelens_graph {__version__}; needs {needs} and {', '.join(imports) or 'nothing else'}."
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


def entry(label: str, text: str, longest: int = _LONGEST, width: int = _HEADING_WIDTH) -> list[str]:
    """Lines of a heading, wrapped behind a label; whatever the text holds, they are printable ASCII.

    Args:
        label: what stands before it.
        text: the text; none gives no line.
        longest: characters from which on it is cut, with a mark.
        width: characters of a line.
    """
    body = ascii_text(text).strip()
    body = body if len(body) <= longest else f"{body[: longest - 3]}..."
    behind = " " * _LABEL
    return wrap(body, width, initial_indent=f"{label:<{_LABEL}}", subsequent_indent=behind, break_on_hyphens=False)


def ascii_text(text: str) -> str:
    """A text with all that is not printable ASCII written out."""
    return "".join(one if " " <= one <= "~" else ascii(one)[1:-1] for one in text)
