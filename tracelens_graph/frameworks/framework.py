"""The facts that differ between frameworks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tracelens_graph.schema import Kind, OwnerRule


@dataclass(frozen=True, eq=False)
class Framework:
    """What differs between traces of one framework and those of another.

    Attributes:
        name: what people call it.
        profiler: value of `profiler` in the metadata of its traces; empty for none.
        has_times: whether its traces have times. Starts and durations of others are places in the order of all begins
            and ends, so that calls nest; nobody is shown them.
        kind_meaning, owner_rule_meaning: what kinds of nodes are, and how GPU events are charged.
        short_kinds: kind -> the word in brackets before a name.
        step_mark: what marks a step in a program.
        entries: what the events of a file are.
        bytes: what a file consists of.
        missing_end: what usually stands at the end of a file; empty where it is known by the parts that are left.
        module, modules: what a module is called, and several.
        module_prefix: what stands before the name of one in a drawn tree.
        outside_modules: what GPU work in a module and in none of its modules is called.
        no_modules, no_place, no_backward, no_allocations, no_programs: notes on tables that lack modules, modules and
            lines of Python, links of both passes, allocations, compiled programs; empty for no note.
        uncharged: what GPU work under no operation is: reason, and what would help; None for the usual ones.
        advice: what is suggested for PyTorch -> what is suggested instead, by names in `diagnosis.finding.ADVICE`.
        recording: which options of a recording it has (`analyses.report.inventory`).
        host_collective: kind of the events on the host that stand for a collective.
        devices_are_ranks: whether one process drives several devices, each of which is a rank.
        compiles_programs: whether its ops are instructions of programs that are compiled during a run.
        waits_in_functions: whether functions wait for the GPU, and not only calls of the runtime.
        launches_from_pool: whether threads of a pool launch what one thread of Python gives them.
    """

    name: str
    profiler: str
    has_times: bool
    kind_meaning: Mapping[Kind, str]
    owner_rule_meaning: Mapping[OwnerRule, str]
    short_kinds: Mapping[Kind, str]
    step_mark: str
    entries: str
    bytes: str
    missing_end: str
    module: str
    modules: str
    module_prefix: str
    outside_modules: str
    no_modules: str
    no_place: str
    no_backward: str
    no_allocations: str
    no_programs: str
    recording: Literal["profiler", "xla", "observer"]
    host_collective: Kind
    uncharged: tuple[str, str] | None = None
    advice: Mapping[str, str] = field(default_factory=dict)
    devices_are_ranks: bool = False
    compiles_programs: bool = False
    waits_in_functions: bool = False
    launches_from_pool: bool = False
