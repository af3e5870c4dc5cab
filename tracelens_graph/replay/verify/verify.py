"""The round trip: scripts run once under the profiler, and what that records is held against their plans."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tracelens_graph.errors import TraceError
from tracelens_graph.extensions.replayer import Replayer
from tracelens_graph.loading.one import load_core
from tracelens_graph.output.files import temporary_folder
from tracelens_graph.replay.feasible import bytes_together
from tracelens_graph.replay.folder import Program, read_folder
from tracelens_graph.replay.plan_json import NotAPlanError
from tracelens_graph.replay.replay_plan import ReplayPlan
from tracelens_graph.replay.tables import OUTCOMES, REPLAY_VERIFY
from tracelens_graph.replay.verify.batches import NoTorchError, Ran, run_scripts
from tracelens_graph.replay.verify.observed import observed, outermost_ops
from tracelens_graph.replay.verify.outcomes import UNKNOWN, Outcome, compared
from tracelens_graph.replay.verify.trust import ForeignProgramError, trusted
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.texts import cut_end, printable

TIMEOUT_S = 120.0
"""How long a script may take, without importing PyTorch."""

_OPTIONS = ("--warmup", "1", "--iterations", "1")

_LONGEST = 300
"""Characters of what is said of a script that is refused."""

_NOT_RUN = {
    "collectives": Outcome("needs ranks", why="run it with torchrun on as many ranks as it says"),
    "triton": Outcome("not filled", why="put the kernel's source in, and run it by itself"),
    "instruction": Outcome("not run", why="run it by itself: it compares what it makes with what was traced"),
    "batch": Outcome("not run", why="write single scripts to verify these operations"),
}
"""Kinds of programs that are not run, and why."""


@dataclass
class _Job:
    """A script on its way: its entry in the index, its plans, its copy, where its trace goes, how it came out."""

    program: Program
    plans: tuple[ReplayPlan, ...] = ()
    copy: Path | None = None
    trace: Path | None = None
    seconds: float | None = None
    outcomes: list[Outcome] = field(default_factory=list)


def verify(
    folder: str | os.PathLike[str],
    *,
    python: str | None = None,
    timeout_s: float = TIMEOUT_S,
    replayers: Sequence[Replayer] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Table:
    """Run the scripts of a folder that `replay -o` wrote, and tell which are recorded as the calls of the trace.

    Each is profiled for one call. Name, types, sizes, strides and values of its arguments, the ops below it and, where
    both ran on a GPU, its kernels are compared with what the folder's index says of the traced call. A script that is
    not what is written for its plan is not run; what runs is written anew from the plan. Scripts share
    a process, in which PyTorch is imported once; one that crashes it or takes too long is lost alone.

    Args:
        folder: the folder, with its `replay.json`.
        python: an interpreter with PyTorch; by default this one.
        timeout_s: how long one script may take, in s.
        replayers: custom operations that scripts may call, and import the modules of; one that wants more is not run.
        progress: called with the number of scripts that are done, and that of all.

    Returns:
        `replay_verify`: a row per script, of a script of several operations a row for each, in the index's order. Its
        notes count outcomes, and say what to do where there is no PyTorch.

    Raises:
        FolderError: the folder has no index, or one that cannot be read.
        OSError: there is no place for temporary files.
    """
    jobs = [_Job(program) for program in read_folder(folder)]
    notes: list[str] = []
    with temporary_folder() as name:
        there = Path(name)
        for place, job in enumerate(jobs):
            _prepare(job, Path(folder), there / f"{place}.py", replayers)
        wanted = [job for job in jobs if job.copy is not None]
        done = len(jobs) - len(wanted)
        try:
            for job, (ran, device) in zip(wanted, _ran(wanted, _interpreter(python), there, timeout_s), strict=True):
                job.seconds = ran.seconds
                job.outcomes = list(_outcomes(job, ran, device))
                done += 1
                if progress:
                    progress(done, len(jobs))
        except NoTorchError as error:
            for job in wanted:
                job.outcomes = job.outcomes or [Outcome("no torch", why=str(error))]
            notes.append(f"{error}; name an interpreter that has PyTorch: --python /path/to/python")
    return _table(jobs, notes)


def memory_bytes() -> int:
    """Bytes of memory of this machine; more than any has where it does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 62


def _interpreter(python: str | None) -> str:
    """The interpreter as it is called from any folder; links stay, as they tell a virtual environment."""
    if not python:
        return sys.executable
    return os.path.abspath(python) if os.path.dirname(python) else python


def _prepare(job: _Job, folder: Path, copy: Path, replayers: Sequence[Replayer]) -> None:
    """Copy a script that may run; else say why not."""
    kind = job.program.kind
    try:
        job.plans = trusted(job.program, folder, replayers)
    except OSError as error:
        job.outcomes = [Outcome("refused", why=(error.strerror or str(error)).lower())]
    except (ForeignProgramError, NotAPlanError) as error:
        job.outcomes = [Outcome("refused", why=cut_end(printable(str(error)), _LONGEST))]
    else:
        if kind in _NOT_RUN:
            job.outcomes = [_NOT_RUN[kind]]
            return
        needed = max((bytes_together(plan.arguments) for plan in job.plans), default=0)
        if needed > (there_is := memory_bytes()):
            told = f"its tensors need {needed / 1e9:,.1f} GB, and this machine has {there_is / 1e9:,.1f} GB"
            job.outcomes = [Outcome("not run", why=told)]
            return
        job.copy, job.trace = copy, copy.with_suffix(".json")
        job.copy.write_text(job.program.source)


def _ran(jobs: Sequence[_Job], python: str, there: Path, timeout_s: float) -> Iterator[tuple[Ran, str]]:
    scripts = ((job.copy, ("--profile", str(job.trace), *_OPTIONS)) for job in jobs if job.copy is not None)
    for ran in run_scripts(scripts, python, there, timeout_s):
        yield ran, ran.device


def _outcomes(job: _Job, ran: Ran, device: str) -> Iterator[Outcome]:
    """How each operation of a script compares."""
    assert job.trace is not None
    plans = job.plans
    if ran.error:
        yield Outcome("failed", why=ran.error)
        return
    try:
        core = load_core(str(job.trace), processes=1)
    except TraceError as error:
        yield Outcome("failed", why=f"its profile cannot be read: {error}")
        return
    finally:
        job.trace.unlink(missing_ok=True)
    rows = outermost_ops(core).tolist()
    if len(rows) != len(plans):
        yield Outcome("other arguments", why=f"{len(rows)} operations are recorded, not {len(plans)}")
        return
    for plan, row in zip(plans, rows, strict=True):
        yield compared(plan, observed(core, row), device != "cpu")


def _table(jobs: Sequence[_Job], notes: list[str]) -> Table:
    records = [
        {
            "file": job.program.file,
            "op": plan.op if plan else job.program.kind,
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
    told = ", ".join(f"{number} {outcome}" for outcome, number in counts.most_common())
    meanings = [f"{outcome}: {OUTCOMES[outcome]}" for outcome in OUTCOMES if outcome in counts and outcome != "equal"]
    title = f"Replayed and held against the trace: {told}" if told else "No scripts"
    return REPLAY_VERIFY.of_records(records, title, [*meanings, *notes])
