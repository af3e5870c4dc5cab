"""A folder of programs: what is in it, how it is made of a trace, written, and read again.

`replay.json` lists the programs with their plans as JSON, so that whoever has the folder needs no trace.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, get_args

from tracelens_graph.errors import AnalysisError, FolderError, TraceLensGraphError
from tracelens_graph.output.files import GENERATOR, is_ours
from tracelens_graph.output.folder import writing_folder
from tracelens_graph.replay.instruction import InstructionPlan
from tracelens_graph.replay.plan_json import plan_from_json
from tracelens_graph.replay.planned import Estimates, Plans, complete
from tracelens_graph.replay.program_text import HasProgram, ProgramKind, identifier, program, written_by
from tracelens_graph.replay.replay_plan import ReplayPlan
from tracelens_graph.replay.short_program import short_program
from tracelens_graph.utils.texts import cut_end

INDEX = "replay.json"
RUNNER, COLLECTIVES = "run.py", "collectives.py"
_VERSION = 3
_LARGEST = 256 << 20
"""Bytes of an index that is read."""
_LONGEST_NAME = 255
"""Characters of a file's name."""
_MOST_REASONS, _LONGEST = 5, 200
"""Reasons that an error names, and characters of each."""


@dataclass(frozen=True)
class Program:
    """A program of a folder.

    Attributes:
        file: its name.
        kind: what it runs.
        about: its heading; a short program has its own, which follows from its plan.
        plan: what it runs, as JSON's values.
    """

    file: str
    kind: str
    about: str
    plan: Any

    @classmethod
    def of(cls, plan: HasProgram | ReplayPlan, file: str, full: bool = False) -> Program:
        """The program of a plan; of one operation the short one, unless it has to be in full or is asked for so."""
        if not isinstance(plan, ReplayPlan):
            return cls(file, plan.kind, plan.about, plan.json())
        if full or not short_program(plan):
            return cls(file, "full", plan.about, [plan.json()])
        return cls(file, "op", "", plan.json())

    @property
    def source(self) -> str:
        """Its text.

        Raises:
            NotAPlanError: it is short, and has no plan.
        """
        if self.kind == "op":
            return short_program(self.plans[0]) or ""
        return program(self.kind, self.about, self.plan)

    @cached_property
    def plans(self) -> tuple[ReplayPlan, ...]:
        """Plans of the operations that it calls, in order; collectives are none.

        Raises:
            NotAPlanError: what stands in the index is none; the message names the place.
        """
        if self.kind in ("collectives", "instruction"):
            return ()
        entries = self.plan.get("steps") if self.kind == "sequence" and isinstance(self.plan, dict) else self.plan
        listed = entries if isinstance(entries, list) else [entries]
        if self.kind == "sequence":
            listed = [one.get("plan") if isinstance(one, dict) else None for one in listed]
        return tuple(map(plan_from_json, listed))


def program_name(plan: ReplayPlan | InstructionPlan, number: int) -> str:
    """Name of a program's file, such as `001_aten_mm_1f2e3d.py`: place, operation, and a hash of the arguments."""
    name = plan.op if isinstance(plan, InstructionPlan) else plan.name
    if isinstance(plan, InstructionPlan):
        key: tuple[Any, ...] = (plan.opcode, plan.operands, plan.result, plan.call)
    else:
        recorded = plan.recorded
        key = (plan.op, plan.overload, recorded.dims, recorded.types, recorded.strides, recorded.values)
    return f"{number:03d}_{identifier(name)}_{sha256(repr(key).encode()).hexdigest()[:6]}.py"


# --- programs of a trace -------------------------------------------------------------------------------------------


def single_programs(plans: Plans, estimates: Estimates, most: int = 0, full: bool = False) -> dict[int, Program]:
    """A program for each signature that has a plan, by place; that of a Triton kernel lacks its source.

    Args:
        plans: plans of the signatures.
        estimates: what the models say of their calls.
        most: how many programs are written; 0 for all.
        full: all of them in full.

    Raises:
        AnalysisError: there is none.
    """
    found: dict[int, Program] = {}
    for place in range(len(plans.signatures)):
        if most and len(found) == most:
            break
        plan = complete(plans, place, estimates).plan
        number = len(found) + 1
        if plan is not None:
            found[place] = Program.of(plan, program_name(plan, number), full)
    if not found:
        raise _nothing(plans)
    return found


def batch_program(plans: Plans, estimates: Estimates, most: int = 0) -> dict[int, Program]:
    """One program of all signatures that have a plan, by their places; arguments as of `single_programs`.

    Raises:
        AnalysisError: none has a plan.
    """
    made = ((place, complete(plans, place, estimates).plan) for place in range(len(plans.signatures)))
    listed = dict(islice(((place, plan) for place, plan in made if plan is not None), most or None))
    if not listed:
        raise _nothing(plans)
    if any(isinstance(plan, InstructionPlan) for plan in listed.values()):
        entries = [entry for plan in listed.values() for entry in plan.json()]
        about = f"{len(listed):,} instructions of XLA, each computed again by JAX.\n\n{written_by(needs='JAX')}\n"
        return dict.fromkeys(listed, Program(RUNNER, "instruction", about, entries))
    about = f"{len(listed):,} operations of a trace, called again one after another.\n\n{written_by()}\n"
    return dict.fromkeys(listed, Program(RUNNER, "full", about, [plan.json() for plan in listed.values()]))


def _nothing(plans: Plans) -> AnalysisError:
    """The error that says why no signature has a plan."""
    reasons = list(dict.fromkeys(plans[place].why for place in range(len(plans.signatures))))
    if not reasons:
        return AnalysisError(
            "nothing can be replayed: no operation launched the GPU work; record host and GPU together"
        )
    more = f", and {len(reasons) - _MOST_REASONS:,} other reasons" if len(reasons) > _MOST_REASONS else ""
    named = ", ".join(cut_end(one, _LONGEST) for one in reasons[:_MOST_REASONS])
    return AnalysisError(f"nothing can be replayed: {named}{more}")


# --- files ---------------------------------------------------------------------------------------------------------


class Written(NamedTuple):
    """What was written to a folder.

    Attributes:
        files: the programs' files.
        removed: names of files of an earlier index that went, since this one does not list them.
    """

    files: list[Path]
    removed: list[str]


def write_folder(
    folder: str | os.PathLike[str], programs: Sequence[Program], trace: str, others: Mapping[str, str] | None = None
) -> Written:
    """Write programs and their index: all of them, or none. Programs that an earlier index lists and this does not go.

    Args:
        folder: where to; it is made if it is not there.
        programs: the programs.
        trace: name of the trace's file.
        others: further files of the programs -> their text.

    Raises:
        OutputError: a file cannot be written, or stands there and is not ours.
    """
    texts = {one.file: one.source for one in programs} | dict(others or {})
    index = {
        "generator": GENERATOR,
        "schema_version": _VERSION,
        "trace": trace,
        "files": list(texts),
        "operations": [{"file": one.file, "kind": one.kind, "about": one.about, "plan": one.plan} for one in programs],
    }
    names = [*texts, INDEX]
    earlier = _earlier(Path(folder))
    with writing_folder(folder, names, is_known=earlier.__contains__) as output:
        for name, text in texts.items():
            with output.file(name) as file:
                file.write(_encoded(text))
        with output.file(INDEX) as file:
            # Compact, so that it begins with its mark.
            file.write(json.dumps(index, separators=(",", ":")).encode())
    gone = sorted(earlier.difference(output.paths))
    for path in gone:
        path.unlink(missing_ok=True)
    return Written([Path(folder) / one.file for one in programs], [path.name for path in gone])


def read_folder(folder: str | os.PathLike[str]) -> list[Program]:
    """The programs that the index of a folder lists.

    Raises:
        FolderError: it has no index, or one that cannot be read or lists nothing.
    """
    path = Path(folder) / INDEX
    index = _read_index(path)
    operations = index.get("operations")
    if not isinstance(operations, list) or not operations:
        raise FolderError(f"{path}: lists no operations")
    if index.get("schema_version", _VERSION) != _VERSION:
        version = cut_end(repr(index["schema_version"]), 20)
        raise FolderError(f"{path}: has schema_version {version}, not {_VERSION}; write it with this version")
    return [_program(path, number, one) for number, one in enumerate(operations, 1)]


def _read_index(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FolderError(f"{path.parent}: holds no {INDEX}; name a folder that `replay -o` wrote")
    try:
        if path.stat().st_size > _LARGEST:
            raise FolderError(f"{path}: is larger than {_LARGEST:,} bytes")
        index = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise FolderError(f"{path}: is no JSON: {error}") from None
    except OSError as error:
        raise FolderError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    return index if isinstance(index, dict) else {}


def _program(path: Path, number: int, entry: Any) -> Program:
    fields = entry if isinstance(entry, dict) else {}
    file, kind, about = (fields.get(key) for key in ("file", "kind", "about"))
    if not _is_name(file) or kind not in get_args(ProgramKind) or not isinstance(about, str) or "plan" not in fields:
        raise FolderError(f"{path}: entry {number} names no program")
    return Program(str(file), str(kind), about, fields["plan"])


def _earlier(folder: Path) -> set[Path]:
    """Files of an earlier run: its index, and what that lists; programs only as they were written, not edited since."""
    try:
        if not is_ours(folder / INDEX):
            return set()
        listed = _read_index(folder / INDEX).get("files")
        sources = {one.file: one.source for one in read_folder(folder)}
    except (TraceLensGraphError, OSError):
        return set()
    paths = [folder / one for one in listed if _is_name(one)] if isinstance(listed, list) else []
    return {folder / INDEX, *(path for path in paths if path.is_file() and _is_as_written(path, sources))}


def _is_as_written(path: Path, sources: Mapping[str, str]) -> bool:
    source = sources.get(path.name)
    return source is None or path.read_bytes() == _encoded(source)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _is_name(name: object) -> bool:
    """Whether a text is the name of a file in the folder itself, without anything that systems do not write."""
    return isinstance(name, str) and name.isprintable() and len(name) <= _LONGEST_NAME and Path(name).name == name != ""
