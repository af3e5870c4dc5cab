"""The traces that TraceLens's tables are there for, and our tables of them under the same options."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from parity.comparing import EXACT, LAYOUTS, SHEETS, Comparison, compare, read_reference
from parity.departures import more_linked
from parity.tolerances import tolerances
from perf.test_roofline import TRACELENS_MI300X

from corpus import CORPUS, GOLDENS, NO_GOLDENS, needs_goldens, reference_tables
from corpus import cases as in_corpus
from tracelens_graph.analyses.report.report_tables import ReportOptions, report_tables
from tracelens_graph.analyses.shared.gpu_work import as_tracelens_counts
from tracelens_graph.compat.ranks.tables import tracelens_tables
from tracelens_graph.compat.sheets import Asked, jax_sheets, pytorch_sheets
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import whole_window
from tracelens_graph.loading.files import trace_files
from tracelens_graph.loading.many import load_core_set
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.devices import architecture
from tracelens_graph.tables.table import Table

GPU_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
HOST_CATEGORIES = ("cuda_runtime", "cuda_driver", "hip_runtime")

MI300X = architecture(TRACELENS_MI300X)
"""The device that TraceLens compared all traces with."""


@dataclass(frozen=True)
class Case:
    """One trace under one set of options.

    Attributes:
        flavour: "default" or "full": TraceLens's options; "inference-capture": those of its report of inference, with
            pseudo ops, modules, call stacks and numbers of kernels.
        trace: the trace, as `platform/name`; those of `inference` are joined with their captures.
    """

    flavour: str
    trace: str

    def __str__(self) -> str:
        return f"{self.flavour}/{self.trace}"

    @property
    def folder(self) -> Path:
        """TraceLens's tables."""
        assert GOLDENS is not None
        return GOLDENS / self.flavour / _FOLDERS.get(str(self), self.trace)

    @property
    def reference(self) -> dict[str, list[dict[str, str]]]:
        """TraceLens's tables that are compared."""
        paths = {name: self.folder / f"{name}.csv" for name in LAYOUTS}
        return {name: read_reference(path) for name, path in paths.items() if path.exists()}

    @property
    def options(self) -> ReportOptions:
        """Our options that correspond to TraceLens's."""
        if self.flavour == "inference-capture":
            return ReportOptions(linked_only=True, by_module=True, by_kernel_count=True)
        if self.flavour == "default":
            return ReportOptions(linked_only=True, as_recorded=True)
        again = any("is_recompute" in row for row in read_reference(self.folder / "gpu_timeline.csv"))
        return ReportOptions(
            linked_only=True, as_recorded=True, micro_idle_us=5, short_kernels_us=10, histogram_bins=100, overlap=False,
            first_occurrence=True, call_stack=True, recompute=again, arch=MI300X,
        )  # fmt: skip

    def tables(self) -> Mapping[str, Table]:
        """Our tables."""
        if self.trace.startswith("inference/"):
            merged = self.flavour == "inference-capture"
            asked = Asked(self.options, call_stack=merged, pseudo_ops=merged, inference=True)
            return pytorch_sheets(graph(self.trace).everything, asked)[0]
        return report_tables(as_tracelens_counts(whole_window(graph(self.trace))), self.options)


_FOLDERS = {
    "inference-capture/inference/vllm-decode": "vllm_decode_full",
    "inference-capture/inference/sglang-decode": "sglang_decode",
}
"""Case -> the folder of its tables, where that is not called as the trace."""


@cache
def compared(case: Case) -> list[Comparison]:
    """Every table of TraceLens held against ours, and our tables by family that it has not against nothing."""
    core, reference, ours = graph(case.trace), case.reference, case.tables()
    linked = core.gpu_rows[core.columns.parent[core.gpu_rows] >= 0]

    def below(uid: int) -> int:
        if case.trace.startswith("inference/"):
            return _IN_A_CALL  # TraceLens has its own uids of captured calls
        row = int(np.flatnonzero(core.columns.uid == uid)[0])
        return int(np.searchsorted(linked, core.columns.last[row], "right") - np.searchsorted(linked, row))

    allowed = tolerances(reference, below, len(core.gpu_rows))
    found = [compare(name, rows, ours.get(name, Table(name, {})), allowed[name]) for name, rows in reference.items()]
    more = [name for name in ours if name in SHEETS and name not in reference] if len(reference) > 1 else []
    return found + [compare(name, [], ours[name], allowed["gpu_timeline"]) for name in more]


_IN_A_CALL = 8
"""GPU events below a captured call, at most."""


def cases() -> list[Case]:
    """All cases; none without the reference tables."""
    flavours = (name.partition("/") for name, *_ in reference_tables("gpu_timeline", "default", "full"))
    found = [Case(flavour, trace) for flavour, _, trace in flavours]
    return found and [*found, *(Case(*name.split("/", 1)) for name in _FOLDERS)]


@dataclass(frozen=True)
class Ranks:
    """The ranks of a job, made by hand.

    Attributes:
        name: of the job.
    """

    name: str

    def __str__(self) -> str:
        return f"ranks/{self.name}"

    @property
    def folder(self) -> Path:
        """TraceLens's tables, and what it said as it wrote them."""
        assert GOLDENS is not None
        return GOLDENS / f"multirank-{self.name}" / f"{self.name}_report"

    @property
    def reference(self) -> dict[str, list[dict[str, str]]]:
        """TraceLens's tables, in the order in which it wrote them."""
        names = re.findall(r"DataFrame '(\w+)' written", (self.folder / "_run.log").read_text())
        return {name: read_reference(self.folder / f"{name}.csv") for name in names}

    def tables(self) -> Mapping[str, Table]:
        """Our tables."""
        return tracelens_tables(load_core_set(trace_files([str(self.folder.with_name(self.name))]), processes=1))


def ranks_of_jobs() -> list[Ranks]:
    """All jobs; none without the reference tables."""
    found = sorted(GOLDENS.glob("multirank-*")) if GOLDENS and not NO_GOLDENS else []
    return [Ranks(folder.name.removeprefix("multirank-")) for folder in found]


@cache
def compared_ranks(job: Ranks) -> list[Comparison]:
    """Every table of TraceLens held against ours: nothing may differ but what float64 loses."""
    ours = job.tables()
    return [
        compare(name, rows, ours.get(name, Table(name, {})), lambda *_: 1e-9) for name, rows in job.reference.items()
    ]


@dataclass(frozen=True)
class Jax:
    """A JAX profile.

    Attributes:
        name: of the profile.
    """

    name: str

    def __str__(self) -> str:
        return f"jax/{self.name}"

    @property
    def reference(self) -> dict[str, list[dict[str, str]]]:
        """TraceLens's tables."""
        assert GOLDENS is not None
        return {path.stem: read_reference(path) for path in sorted((GOLDENS / str(self)).glob("*.csv"))}

    @property
    def graph(self) -> Core:
        """The graph of the profile."""
        assert CORPUS is not None
        return load_core(CORPUS / "tracelens" / f"{self}.xplane.pb")

    def tables(self) -> Mapping[str, Table]:
        """Our tables in TraceLens's layout."""
        return jax_sheets(self.graph.everything)


def jax_profiles() -> list[Jax]:
    """All JAX profiles; none without the reference tables."""
    return [Jax(folder.name) for folder in sorted((GOLDENS / "jax").glob("*"))] if GOLDENS and not NO_GOLDENS else []


@cache
def compared_jax(profile: Jax) -> list[Comparison]:
    """Every table of TraceLens held against ours: nothing may differ but what float64 loses."""
    ours = profile.tables()
    return [
        compare(name, rows, ours.get(name, Table(name, {})), lambda *_: EXACT)
        for name, rows in profile.reference.items()
    ]


@dataclass(frozen=True)
class Eval:
    """A trace that TraceLens's own evaluation reports on, with the report.

    Attributes:
        name: of the folder, `tracelens-evals/gemm_01` or `tracelens-evals-comparative/test01`.
        number: of the trace in a comparison, 1 or 2; empty without one.
    """

    name: str
    number: str = ""

    def __str__(self) -> str:
        return f"{self.name.replace('tracelens-', '')}/{self.number}".rstrip("/")

    @property
    def folder(self) -> Path:
        """Traces, tables and findings."""
        assert CORPUS is not None
        return CORPUS / "external" / self.name

    @property
    def csvs(self) -> Path:
        """TraceLens's tables."""
        return self.folder / f"csv{self.number}"

    @property
    def reference(self) -> dict[str, list[dict[str, str]]]:
        """The same, read."""
        return {path.stem: read_reference(path) for path in sorted(self.csvs.glob("*.csv"))}

    @property
    def trace(self) -> Path:
        """The trace."""
        return self.folder / f"trace{self.number}.json.gz"

    @property
    def graph(self) -> Core:
        """The graph of the trace."""
        return load_core(self.trace)

    def tables(self) -> Mapping[str, Table]:
        """Our tables in TraceLens's layout. The first trace of a comparison is compared with the second."""
        other = load_core(self.folder / "trace2.json.gz").everything if self.number == "1" else None
        options = ReportOptions(linked_only=True, by_kernel_count=True, arch=MI300X, compare_with=other)
        return pytorch_sheets(self.graph.everything, Asked(options, call_stack=True, python_frames=False))[0]


def evals(pattern: str = "tracelens-evals*") -> list[Eval]:
    """All traces of TraceLens's evaluation; none without the traces."""
    found = sorted((CORPUS / "external").glob(f"{pattern}/*/trace*.json.gz")) if CORPUS else []
    names = ((f"{path.parts[-3]}/{path.parts[-2]}", path.name.removesuffix(".json.gz")) for path in found)
    return [Eval(name, trace.removeprefix("trace")) for name, trace in names]


@cache
def compared_eval(case: Eval) -> list[Comparison]:
    """Every table of TraceLens held against ours, under the tolerances of other traces."""
    core, reference, ours = case.graph, case.reference, case.tables()
    linked = core.gpu_rows[core.columns.parent[core.gpu_rows] >= 0]

    def below(uid: int) -> int:
        row = int(np.flatnonzero(core.columns.uid == uid)[0])
        return int(np.searchsorted(linked, core.columns.last[row], "right") - np.searchsorted(linked, row))

    allowed = tolerances(reference, below, len(core.gpu_rows))
    return [compare(name, rows, ours.get(name, Table(name, {})), allowed[name]) for name, rows in reference.items()]


def everything_compared() -> list[tuple[str, Comparison]]:
    """All comparisons, each with the name of its case."""
    return [
        *((str(case), comparison) for case in cases() for comparison in compared(case)),
        *((str(job), comparison) for job in ranks_of_jobs() for comparison in compared_ranks(job)),
        *((str(profile), comparison) for profile in jax_profiles() for comparison in compared_jax(profile)),
        *((str(case), comparison) for case in evals() for comparison in compared_eval(case)),
    ]


def parameters(chosen: Iterable[Case] | Iterable[Ranks] | Iterable[Jax] | Iterable[Eval]) -> list[object]:
    """Cases as parameters of a test."""
    return in_corpus(((case, case) for case in chosen), needs=needs_goldens)


def path_of(trace: str) -> Path:
    """The file of a trace."""
    assert CORPUS is not None
    file = CORPUS / "tracelens" / f"{trace}.json.gz"
    return file if file.exists() else CORPUS / "tracelens" / trace / "graph-replay.json.gz"


@cache
def graph(trace: str) -> Core:
    """The graph of a trace as TraceLens links it."""
    entry = more_linked().get(trace)
    if entry is None:
        path = path_of(trace)
        captures = path.with_name("capture")
        return load_core(path, capture=captures if captures.exists() else None)
    data = read(path_of(trace))
    assert without_id_links(data["traceEvents"]) == entry.events
    return load_core(json.dumps(data).encode())


def read(path: Path) -> dict[str, Any]:
    """A trace as parsed JSON. Its numbers are short enough to be written again as they were."""
    data: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return data


def without_id_links(events: list[dict[str, Any]]) -> int:
    """Take the correlation id from GPU events that nothing but the id links to their launch; how many there are."""
    arrows = {event.get("id") for event in events if event.get("cat") == "ac2g" and event.get("ph") == "s"}
    launched = {id_ for event in events if event.get("cat") in HOST_CATEGORIES for id_ in _correlation(event)}
    cut = 0
    for event in events:
        if event.get("cat") in GPU_CATEGORIES:
            for id_ in _correlation(event):
                if id_ in launched and id_ not in arrows:
                    del event["args"]["correlation"]
                    cut += 1
    return cut


def _correlation(event: Mapping[str, Any]) -> list[Any]:
    return [event["args"]["correlation"]] if "correlation" in event.get("args", {}) else []
