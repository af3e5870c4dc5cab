"""The options by which a command is asked of a part of the trace: one set for all commands."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tracelens_graph.cli import completing
from tracelens_graph.cli.options import Group, as_written, name_wanted, option, to_ns
from tracelens_graph.utils.texts import whole_number

if TYPE_CHECKING:
    from tracelens_graph.extensions.extension import Extension
    from tracelens_graph.graph.core import Core
    from tracelens_graph.graph.trace_set import TraceSet
    from tracelens_graph.graph.window import Window as Part

_NUMBERS = re.compile(r"(\d+)(?:-(\d+))?")


Frames = StrEnum("Frames", "user all")
"""Which frames of Python screens show."""

Phase = StrEnum("Phase", "prefill mixed decode denoise unknown")
"""What an iteration of a server computes."""


@dataclass(frozen=True)
class WindowChoice:
    """What part of a trace a command was asked for.

    Fields are the arguments of `Core.window`, but for times, which count from the zero of Perfetto UI, and for
    `all_frames`: whether frames of frameworks are shown, too.
    """

    step: tuple[int, ...] | None = None
    iteration: tuple[int, ...] | None = None
    phase: str | None = None
    steady: bool = False
    annotation: str | re.Pattern[str] | None = None
    threads: Literal["own", "all"] = "own"
    after_ns: int | None = None
    before_ns: int | None = None
    under: int | str | re.Pattern[str] | None = None
    device: tuple[int, ...] | None = None
    stream: tuple[int, ...] | None = None
    all_frames: bool = False

    def of(self, graph: Core | Part, extension: Extension | None = None) -> Part:
        """The window of a graph, or what it holds of a window, as analyses see it that go by an extension.

        Times are those of Perfetto UI.
        """
        from tracelens_graph.graph.window import narrow, window_of

        w = window_of(
            graph if extension is None else extension.processed(window_of(graph, needs_times=False).core),
            needs_times=False,
        )
        lead = w.core.info.lead_ns
        times = {name: getattr(self, name) for name in ("after_ns", "before_ns")}
        part = {name: value for name, value in vars(self).items() if name != "all_frames"}
        chosen = narrow(w, **(part | {name: ns - lead for name, ns in times.items() if ns is not None}))
        chosen = chosen.with_all_frames() if self.all_frames else chosen
        return chosen if extension is None else extension.of(chosen)

    def of_each(self, traces: TraceSet) -> TraceSet:
        """The set of the windows of its graphs."""
        from tracelens_graph.graph.trace_set import TraceSet

        return TraceSet(replace(one, graph=self.of(one.window)) for one in traces)

    def arguments(self) -> list[tuple[str, ...]]:
        """The options by which a command is asked for this window again."""
        steps, iterations = (one and ",".join(map(str, one)) for one in (self.step, self.iteration))
        after, before = (None if ns is None else f"{ns}ns" for ns in (self.after_ns, self.before_ns))
        given = {
            "--step": steps, "--iteration": iterations, "--phase": self.phase, "--steady": self.steady or None,
            "--annotation": self.annotation, "--all-threads": self.threads == "all" or None, "--from": after,
            "--to": before, "--under": self.under, "--frames": "all" if self.all_frames else None,
        }  # fmt: skip
        words = [(name,) if one is True else (name, as_written(one)) for name, one in given.items() if one is not None]
        numbers = (("--device", self.device), ("--stream", self.stream))
        return [*words, *((option, str(number)) for option, chosen in numbers for number in chosen or ())]


def _chosen(
    step: Annotated[
        str | None, option(metavar="N", help="Only step N, of PyTorch ProfilerStep#N: 3, 2-5 or 1,4-6.")
    ] = None,
    iteration: Annotated[
        str | None, option(metavar="N", help="Only iteration N of a server, from 0: 3, 2-5; ask iterations lists them.")
    ] = None,
    phase: Annotated[Phase | None, typer.Option(help="Only iterations of a server that do this.")] = None,
    steady: Annotated[bool, option("--steady", help="Only the steady state of a server.")] = False,
    annotation: Annotated[
        str | None,
        option(
            metavar="NAME",
            help="Only what starts inside annotations of this name, on their thread. /.../: an expression.",
        ),
    ] = None,
    all_threads: Annotated[
        bool, option("--all-threads", help="With --annotation: on all threads of its process.")
    ] = False,
    from_: Annotated[
        str | None,
        option("--from", metavar="TIME", help="Only what starts at this time of Perfetto UI or later: 12ms."),
    ] = None,
    to: Annotated[str | None, option("--to", metavar="TIME", help="Only what starts before this time.")] = None,
    under: Annotated[
        str | None,
        option(
            metavar="UID|NAME",
            autocompletion=completing.modules,
            help="Only what is below this node, or nodes: modules, by instance, class or path, ops, frames; /.../: an "
            "expression.",
        ),
    ] = None,
    device: Annotated[
        list[int] | None, option(metavar="N", help="Only GPU events on this device; may be given again.")
    ] = None,
    stream: Annotated[
        list[int] | None, option(metavar="N", help="Only GPU events on this stream; may be given again.")
    ] = None,
    frames: Annotated[
        Frames, typer.Option(help="Frames of Python that are shown: of users, models and libraries, or all.")
    ] = Frames.user,
) -> WindowChoice:
    if all_threads and annotation is None:
        raise typer.BadParameter("--all-threads needs --annotation")
    return WindowChoice(
        step=None if step is None else numbers_of(step, "--step"),
        iteration=None if iteration is None else numbers_of(iteration, "--iteration"),
        phase=phase and phase.value,
        steady=steady,
        annotation=name_wanted(annotation, "--annotation"),
        threads="all" if all_threads else "own",
        after_ns=None if from_ is None else to_ns(from_, "--from"),
        before_ns=None if to is None else to_ns(to, "--to"),
        under=name_wanted(under, "--under") if under is None or (uid := whole_number(under)) is None else uid,
        device=tuple(device) if device else None,
        stream=tuple(stream) if stream else None,
        all_frames=frames is Frames.all,
    )


Window = Annotated[WindowChoice, Group(_chosen, "Part of the trace")]
"""The parameter of a command that is asked of a part of a trace."""


def numbers_of(text: str, name: str) -> tuple[int, ...]:
    """The numbers that a list such as `1,4-6` holds, given for an option of this name."""
    what = name.strip("-")
    numbers: list[int] = []
    for part in text.split(","):
        match = _NUMBERS.fullmatch(part.strip())
        if not match:
            raise typer.BadParameter(f"{name}: {text!r} is no list of {what}s such as 3, 2-5 or 1,4-6")
        low, high = int(match[1]), int(match[2] or match[1])
        if high < low or high - low > 1_000_000:
            raise typer.BadParameter(f"{name}: {part!r} is no range of {what}s")
        numbers += range(low, high + 1)
    return tuple(numbers)
