"""The round trip: programs run once under the profiler, and what that records is held against their plans.

A folder can come from anywhere, and nothing in it is run because it says so: what runs is written anew from the plan
in the index, calls and imports nothing but what it may, and stands in the folder to the byte.
"""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace as replace_fields

from tracelens_graph.errors import ForeignProgramError, NotAPlanError, NoTorchError, TraceError
from tracelens_graph.extensions.extension import Replayer
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.output.files import temporary_folder
from tracelens_graph.replay.calls import Surroundings, recorded_at
from tracelens_graph.replay.custom.lookup import shipped
from tracelens_graph.replay.folder import Program, read_folder
from tracelens_graph.replay.replay_plan import Recorded, ReplayPlan, Traced
from tracelens_graph.replay.schemas import why_not
from tracelens_graph.replay.tables import OUTCOMES, REPLAY_VERIFY
from tracelens_graph.replay.verify.processes import Order, Ran, run_scripts
from tracelens_graph.schema import Kind
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Rows
from tracelens_graph.utils.texts import cut_end, printable

TIMEOUT_S = 300.0
"""How long a script may take, without importing PyTorch."""

_OPTIONS = ("--warmup", "1", "--iterations", "1")
EQUAL, OTHER, UNKNOWN = "equal", "other", "not compared"
_PARTS = {"types": "type", "dims": "sizes", "strides": "strides", "values": "value"}
"""Attributes of `Recorded`, and what one entry of them is called."""
_LONGEST, _LONGEST_VALUE = 300, 60
"""Characters of what is said of a program that is refused, and of a value that a difference shows."""


@dataclass(frozen=True)
class Outcome:
    """How a call compares with that of the trace.

    Attributes:
        outcome: one of `replay.tables.OUTCOMES`.
        arguments, children, kernels: `equal`, `other`, or `not compared`; empty where the call did not run.
        why: what differs, or why it did not run, in one line.
    """

    outcome: str
    arguments: str = ""
    children: str = ""
    kernels: str = ""
    why: str = ""


_LISTS = ("full", "instruction")
"""Kinds of programs that run entries of a list, each by itself."""
_FRAMEWORKS = {"torch": "PyTorch", "jax": "JAX"}
_NEEDS_RANKS = Outcome("needs ranks", why="run it with torchrun on as many ranks as it says")
_NOT_FILLED = Outcome(
    "not filled", why="its kernel has no source: replay -o with --kernel-source FILE, then run it by itself"
)


@dataclass
class _Job:
    """A program on its way: its entry in the index, its plans, its copy, where its trace goes, how it came out.

    Of a program of a list, each entry is a job: `part` is its place, and its copy a program of that one alone. Plans of
    operations that come along are run by their references if `is_reference` says so.
    """

    program: Program
    part: int | None = None
    plans: tuple[ReplayPlan, ...] = ()
    is_reference: bool = False
    copy: Path = Path()
    seconds: float | None = None
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def trace(self) -> Path:
        return self.copy.with_suffix(".json")

    @property
    def order(self) -> Order:
        """How it is run: a short program is imported and its function called, others write a profile themselves."""
        imports = tuple(dict.fromkeys(module for plan in self.plans for module in plan.imports))
        options = ("--reference",) * (self.is_reference and bool(imports))
        imports = () if self.is_reference else imports
        if self.program.kind == "op":
            return Order(str(self.copy), options, str(self.trace), imports)
        profile = () if self.program.kind == "instruction" else ("--profile", str(self.trace))
        return Order(str(self.copy), (*options, *profile, *_OPTIONS), imports=imports)

    @property
    def instruction(self) -> Mapping[str, Any]:
        """What the index says of an instruction of XLA."""
        entry = self.program.plan[self.part] if self.part is not None and not self.plans else None
        return entry if isinstance(entry, dict) else {}


def verify(
    folder: str | os.PathLike[str],
    *,
    python: str | None = None,
    timeout_s: float = TIMEOUT_S,
    replayers: Sequence[Replayer] = (),
    reference: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Table:
    """Run the programs of a folder that `replay -o` wrote, and say which are recorded as the calls of the trace.

    Each is profiled for one call. Name, types, sizes, strides and values of its arguments, the ops below it and, where
    both ran on a GPU, its kernels are compared with what the folder's index says of the traced call. Programs share
    a process, in which PyTorch is imported once; one that crashes it or takes too long is lost alone.

    Args:
        folder: the folder, with its `replay.json`.
        python: an interpreter with PyTorch; by default this one.
        timeout_s: how long one program may take, in s.
        replayers: custom operations that programs may call, and import the modules of; one that wants more is not run.
        reference: run plain torch in place of libraries whose operations come along.
        progress: called with the number of programs that are done, and that of all.

    Returns:
        `replay_verify`: a row per program, of one of several operations a row for each, in the index's order. Its
        notes count outcomes, and say what to do where there is no PyTorch.

    Raises:
        FolderError: the folder has no index, or one that cannot be read.
        OSError: there is no place for temporary files.
    """
    jobs = [_Job(program, part, is_reference=reference) for program in read_folder(folder) for part in _parts(program)]
    notes: list[str] = []
    with temporary_folder() as name:
        there = Path(name)
        for place, job in enumerate(jobs):
            _prepare(job, Path(folder), there / f"{place}.py", replayers)
        wanted = [job for job in jobs if not job.outcomes]
        done = len(jobs) - len(wanted)
        orders = [job.order for job in wanted]
        framework = "jax" if jobs and all(job.program.kind == "instruction" for job in jobs) else "torch"
        try:
            done_by = run_scripts(orders, _interpreter(python), there, timeout_s, framework)
            for job, ran in zip(wanted, done_by, strict=True):
                job.seconds = ran.seconds
                job.outcomes = list(_outcomes(job, ran))
                done += 1
                if progress:
                    progress(done, len(jobs))
        except NoTorchError as error:
            for job in wanted:
                job.outcomes = job.outcomes or [Outcome(f"no {framework}", why=str(error))]
            notes.append(f"{error}; name an interpreter that has {_FRAMEWORKS[framework]}: --python /path/to/python")
    return _table(jobs, notes)


def _parts(program: Program) -> Iterable[int | None]:
    """Places of the entries that run one by one; None for a program that runs as a whole."""
    return range(len(program.plan)) if program.kind in _LISTS and isinstance(program.plan, list) else (None,)


def memory_bytes() -> int:
    """Bytes of memory of this machine; more than any has where it does not show."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 62


def _interpreter(python: str | None) -> str:
    """The interpreter as it is called from any folder; links stay, as they name a virtual environment."""
    if not python:
        return sys.executable
    return os.path.abspath(python) if os.path.dirname(python) else python


def _prepare(job: _Job, folder: Path, copy: Path, replayers: Sequence[Replayer]) -> None:
    """Copy a program that may run; else say why not."""
    try:
        plans = job.program.plans
        job.plans = plans if job.part is None else plans[job.part : job.part + 1]  # instructions have none
        trusted(job.program, folder, replayers)
    except OSError as error:
        job.outcomes = [Outcome("refused", why=(error.strerror or str(error)).lower())]
        return
    except (ForeignProgramError, NotAPlanError) as error:
        job.outcomes = [Outcome("refused", why=cut_end(printable(str(error)), _LONGEST))]
        return
    needed = max((plan.bytes for plan in job.plans), default=0)
    if job.program.kind == "collectives":
        job.outcomes = [_NEEDS_RANKS]
    elif job.plans and all(plan.launch for plan in job.plans):
        job.outcomes = [_NOT_FILLED] * len(job.plans)
    elif needed > (memory := memory_bytes()):
        why = f"its tensors need {needed / 1e9:,.1f} GB, and this machine has {memory / 1e9:,.1f} GB"
        job.outcomes = [Outcome("not run", why=why)]
    else:
        job.copy = copy
        alone = None if job.part is None else replace(job.program, plan=[job.program.plan[job.part]])
        job.copy.write_text((alone or job.program).source)


def trusted(program: Program, folder: Path, replayers: Sequence[Replayer] = ()) -> tuple[ReplayPlan, ...]:
    """The plans of a program that may run.

    Args:
        program: what the index says of it.
        folder: where it is.
        replayers: custom operations that it may call; it may import their modules.

    Raises:
        ForeignProgramError: it may not; says why.
        NotAPlanError: the index has no plan of it.
        OSError: it cannot be read.
    """
    plans = program.plans
    replayers = [*replayers, *filter(None, (shipped(plan.op) for plan in plans if isinstance(plan, ReplayPlan)))]
    modules = {module for one in replayers for module in one.imports}
    for plan in (one for one in plans if not one.launch):
        if foreign := [module for module in plan.imports if module not in modules]:
            raise ForeignProgramError(
                f"it imports {', '.join(foreign)}; give the extension that says so: --extension FILE"
            )
        if refused := why_not(plan.op, plan.overload, [text for one in replayers for text in one.schemas]):
            raise ForeignProgramError(refused)
    if _read(folder / program.file, source := program.source.encode()) != source:
        raise ForeignProgramError("it is not what is written for its plan")
    return plans


def _read(path: Path, expected: bytes) -> bytes:
    """The bytes of a file, up to one more than are expected; nothing that is no file is waited for."""
    with os.fdopen(
        os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb"
    ) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ForeignProgramError("it is not a file")
        return file.read(len(expected) + 1)


def _outcomes(job: _Job, ran: Ran) -> Iterator[Outcome]:
    """How each operation of a program compares."""
    if ran.lacks or ran.error:
        yield Outcome("no library", why=ran.lacks) if ran.lacks else Outcome("failed", why=ran.error)
        return
    if job.program.kind == "instruction":  # which compares its result itself
        assumed = job.instruction.get("assumed")
        yield Outcome("equal shapes", why="; ".join(map(str, assumed)) if isinstance(assumed, list) else "")
        return
    try:
        core = load_core(str(job.trace), processes=1)
    except TraceError as error:
        yield Outcome("failed", why=f"its profile cannot be read: {error}")
        return
    finally:
        job.trace.unlink(missing_ok=True)
    rows = outermost_ops(core).tolist()
    called = [plan for plan in job.plans if not plan.launch]  # without its source a kernel is not launched
    if len(called) == 1 and called[0].gradient:
        yield _gradient(core, called[0], ran.device != "cpu")
        return
    if len(called) == 1:  # older profilers round, so that what it calls may outlive it
        rows = [row for row in rows if core.names[core.columns.name[row]] == called[0].op] or rows
    if len(rows) != len(called):
        yield Outcome("other arguments", why=f"{len(rows)} operations are recorded, not {len(called)}")
        return
    there = iter(rows)
    for plan in job.plans:
        is_reference = job.is_reference and bool(plan.imports)
        yield (
            _NOT_FILLED
            if plan.launch
            else compared(plan, observed(core, next(there)), ran.device != "cpu", is_reference)
        )


def _table(jobs: Sequence[_Job], notes: list[str]) -> Table:
    records = [
        {
            "file": job.program.file,
            "op": plan.name if plan else str(job.instruction.get("op", job.program.kind)),
            "outcome": one.outcome,
            "arguments": one.arguments or UNKNOWN,
            "children": one.children or UNKNOWN,
            "kernels": one.kernels or UNKNOWN,
            "why": one.why,
            "seconds": job.seconds if at == 0 else None,
        }
        for job in jobs
        for at, one in enumerate(job.outcomes)
        for plan in [job.plans[at] if at < len(job.plans) else None]
    ]
    counts = Counter(str(one["outcome"]) for one in records)
    counted = ", ".join(f"{number} {outcome}" for outcome, number in counts.most_common())
    meanings = [f"{outcome}: {OUTCOMES[outcome]}" for outcome in OUTCOMES if outcome in counts and outcome != "equal"]
    title = f"Replayed and held against the trace: {counted}" if counted else "No programs"
    return REPLAY_VERIFY.of_records(records, title, [*meanings, *notes])


# --- one call ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Observed:
    """One call in a trace: name of the op, its arguments, names of the ops and of the GPU work below it, in order."""

    name: str
    recorded: Recorded
    children: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()


def observed(core: Core, row: int) -> Observed:
    """The call of a row."""
    around = Surroundings(core, row)
    name = core.names[core.columns.name[row]]
    return Observed(name, recorded_at(core, row), tuple(around.children), tuple(around.kernels))


def outermost_ops(core: Core) -> Rows:
    """Rows of the ops that no other op stands above, ascending."""
    c = core.columns
    ops = np.flatnonzero(c.kind == Kind.Op)
    parents = c.parent[ops]
    return ops[(parents < 0) | (c.kind[parents] != Kind.Op)]


def compared(plan: ReplayPlan, seen: Observed, on_gpu: bool, is_reference: bool = False) -> Outcome:
    """Hold a replayed call against what the trace says of the traced one.

    Ops below it and kernels are compared if both ran on a GPU, or neither did, and the operation is that of the trace.

    Args:
        plan: the call, with what was recorded of it.
        seen: the replayed call.
        on_gpu: whether it ran on a GPU.
        is_reference: whether plain torch ran in place of a library.
    """
    traced = plan.traced
    # What is true first says why only arguments are compared; a size that no trace has was traced on no device.
    limits = {
        "reference": is_reference,
        "new sizes": traced.uid < 0,
        "equal arguments": on_gpu != bool(traced.kernels or traced.gpu),
        "equal but assumed": bool(plan.assumed),
    }
    outcome = next((one for one, is_so in limits.items() if is_so), "equal")
    is_known = outcome.startswith("equal") and not limits["equal arguments"]
    different = {"other arguments": _differing_arguments(plan, seen)}
    if is_known:
        different["other children"] = _differing_children(traced, seen.children)
    if is_known and on_gpu:
        different["other kernel"] = _differing_names(traced.kernels, seen.kernels, "kernel")
    parts = [OTHER if why else EQUAL for why in different.values()]
    arguments, children, kernels = [*parts, UNKNOWN, UNKNOWN][:3]
    remarks = "; ".join([*plan.assumed, *_not_recorded(plan, seen.recorded)])
    outcome, why = next((one for one in different.items() if one[1]), (outcome, remarks))
    return Outcome(outcome, arguments, children, kernels, why)


def _gradient(core: Core, plan: ReplayPlan, on_gpu: bool) -> Outcome:
    """How a gradient compares: its operation stands below those of autograd, where the device has that."""
    within = plan.traced.within
    rows = [row for row in np.flatnonzero(core.columns.kind == Kind.Op) if core.names[core.columns.name[row]] == within]
    if not on_gpu or not plan.traced.kernels:
        return Outcome("ran", why=f"{within} on the traced device")
    if not rows:
        return Outcome("other children", UNKNOWN, OTHER, UNKNOWN, f"{cut_end(within, _LONGEST_VALUE)} was not called")
    traced = replace_fields(plan.traced, within="")
    return compared(replace_fields(plan, op=within, traced=traced, gradient=()), observed(core, int(rows[0])), on_gpu)


def _differing_arguments(plan: ReplayPlan, seen: Observed) -> str:
    """The first entry that differs; parts that either trace lacks are not compared."""
    if plan.op != seen.name:
        return f"{seen.name} ran"
    names = [one.name for one in plan.arguments]
    passed = {one.name for way in plan.given for one in way}
    for part, word in _PARTS.items():
        wanted, there = getattr(plan.recorded, part), getattr(seen.recorded, part)
        # An older PyTorch has no parameters for the last arguments, which were at their defaults then.
        if (there or word == "type") and passed.intersection(names[len(there) : len(wanted)]):
            return f"{len(there)} arguments are recorded, not {len(wanted)}"
        for at, (want, have) in enumerate(zip(wanted, there, strict=False)):
            if want != have:
                name = names[at] if at < len(names) else f"argument {at + 1}"
                return f"{word} of {name}: {_text(have)}, not {_text(want)}"
    return ""


def _not_recorded(plan: ReplayPlan, seen: Recorded) -> Iterator[str]:
    """What the trace has of a call, and the PyTorch that ran it does not record."""
    for part, word in _PARTS.items():
        if getattr(plan.recorded, part) and not getattr(seen, part):
            yield f"{word.removesuffix('s')}s not recorded"
    if lacking := [one.name for one in plan.arguments][len(seen.types) : len(plan.recorded.types)]:
        yield f"{', '.join(lacking)} not recorded"


def _differing_children(traced: Traced, seen: Sequence[str]) -> str:
    """The first op below that differs: below the call, or below the traced op where the call only leads to that."""
    if not traced.within:
        return _differing_names(traced.children, seen, "op")
    if traced.within not in seen:
        return f"{cut_end(traced.within, _LONGEST_VALUE)} was not called"
    begin = seen.index(traced.within) + 1
    return _differing_names(traced.children, seen[begin : begin + len(traced.children)], "op")


def _differing_names(expected: Sequence[str], found: Sequence[str], word: str) -> str:
    """The first place at which two sequences of names part."""
    for at, (want, have) in enumerate(zip(expected, found, strict=False)):
        if want != have:
            return f"{word} {at + 1} of {len(expected)}: {_text(have)}, not {_text(want)}"
    if len(expected) != len(found):
        longer, verb = (expected, "is missing") if len(expected) > len(found) else (found, "is too many")
        return f"{word} {min(len(expected), len(found)) + 1}: {_text(longer[min(len(expected), len(found))])} {verb}"
    return ""


def _text(value: Any) -> str:
    return cut_end(value if isinstance(value, str) else str(_as_lists(value)), _LONGEST_VALUE) or "nothing"


def _as_lists(value: Any) -> Any:
    return [_as_lists(one) for one in value] if isinstance(value, tuple) else value
