"""A saved graph that is damaged gives the answer of the whole one, or none and one line that says why."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from graph_damage import BYTES, CONTENTS, index_of, span_of
from handmade import small_trace, span
from typer.testing import CliRunner

from tracelens_graph.cli.app import app
from tracelens_graph.errors import TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.stores.graph_file import write_graph

pytestmark = pytest.mark.proof

CASES = 18
"""Seeds for each kind of damage."""

COMMANDS = (
    "report TRACE", "report TRACE --table ops_summary", "report TRACE --csv OUT", "info TRACE", "tree TRACE",
    "tree TRACE --uid 6 --up", "modules TRACE", "timeline TRACE", "attribution TRACE", "roofline TRACE --arch h100-sxm",
    "ask kernel_summary TRACE", "ask idle_causes TRACE", "cut TRACE --uid 6 -o OUT.json", "export TRACE -o OUT.graphml",
    "save TRACE -o OUT", "diff --by-name TRACE OTHER",
)  # fmt: skip


def rich_trace() -> dict[str, Any]:
    """A trace whose graph leaves no section of its file empty."""
    trace = small_trace()
    gpu = {"pid": 0, "tid": 9, "device": 0, "stream": 9}
    trace["traceEvents"] += [
        span("cpu_op", "record_param_comms", 1600.0, 50.0, External_id=8, Collective_name="allreduce", dtype="Float"),
        span("cuda_runtime", "cudaLaunchKernel", 1610.0, 5.0, correlation=79),
        span("kernel", "ncclDevKernel_AllReduce", 1620.0, 60.0, **gpu, correlation=79, Collective_name="allreduce"),
        {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 100, "tid": 100, "ts": 1040.0},
        {"ph": "f", "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 100, "tid": 100, "ts": 1600.0, "bp": "e"},
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 2**41, "pid": 0, "tid": 7, "ts": 1150.25},
        {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 2**41, "pid": 0, "tid": 9, "ts": 1620.0, "bp": "e"},
    ]
    return trace


class Bench:
    """A folder in which commands run on one saved graph, and what they answer when it is whole."""

    def __init__(self, folder: Path) -> None:
        self.trace, self.other, self.out = folder / "trace.tlg", folder / "other.tlg", folder / "out"
        write_graph(load_core(rich_trace()), self.trace)
        shutil.copyfile(self.trace, self.other)
        self.whole = self.trace.read_bytes()
        self.answers = {command: self.answer(command) for command in COMMANDS}

    def answer(self, command: str) -> tuple[int, str, str, dict[str, bytes]]:
        """Exit code, standard output, standard error, and the files that were written."""
        self.out.mkdir()
        try:
            words = {"TRACE": str(self.trace), "OTHER": str(self.other), "OUT": str(self.out / "x")}
            words |= {f"OUT{suffix}": str(self.out / f"x{suffix}") for suffix in (".json", ".graphml")}
            done = CliRunner().invoke(app, [words.get(word, word) for word in command.split()])
            if done.exception and not isinstance(done.exception, SystemExit):
                raise done.exception
            written = {str(path): path.read_bytes() for path in self.out.rglob("*") if path.is_file()}
            return done.exit_code, done.stdout, done.stderr, written
        finally:
            shutil.rmtree(self.out)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("bench"))


def read_all(data: bytes) -> Core:
    """The graph, with all that is read on request."""
    core = load_core(data)
    core.read_all()
    core.details.events(range(core.info.events))
    return core


def test_the_whole_graph_is_a_rich_one(bench: Bench) -> None:
    core = read_all(bench.whole)
    assert core.autograd_flows
    assert core.collective_args
    assert len(core.depends_on)
    assert [command for command, (code, *_) in bench.answers.items() if code] == []


@pytest.mark.parametrize("harm", [*BYTES, *CONTENTS], ids=lambda harm: harm.__name__)
def test_the_answer_is_right_or_there_is_none(bench: Bench, harm: Callable[[bytes, random.Random], bytes]) -> None:
    core = read_all(bench.whole)
    for seed in range(CASES):
        rng = random.Random(f"{harm.__name__} {seed}")
        broken = harm(bench.whole, rng)
        with suppress(TraceError):
            assert read_all(broken).equals(core), seed
            assert harm in BYTES, f"{seed} is not noticed"
        bench.trace.write_bytes(broken)
        command = COMMANDS[(seed + BYTES.index(harm) if harm in BYTES else seed) % len(COMMANDS)]
        code, out, err, written = bench.answer(command)
        if code == 0:
            assert (code, out, err, written) == bench.answers[command], (seed, command)
        else:
            assert code == 1, (seed, command, err)
            assert (out, written) == ("", {}), (seed, command)
            assert err.startswith("error: "), (seed, command)
            assert err.count("\n") == 1, (seed, command)


@pytest.mark.parametrize("section", ["names", "columns.dur_ns", "columns.last", "collectives"])
def test_a_set_goes_on_without_a_damaged_graph(bench: Bench, section: str) -> None:
    _, index = index_of(bench.whole)
    place, _ = span_of(index, section)
    bench.trace.write_bytes(bench.whole[:place] + b"\x99" + bench.whole[place + 1 :])
    for command in ("report TRACE OTHER --table ops_summary", "ask slowest_ranks TRACE OTHER"):
        code, out, err, _ = bench.answer(command)
        assert code == 1
        assert out.startswith("1 trace\n") == command.startswith("report")
        [line] = [line for line in err.splitlines() if "damaged" in line]
        assert f"{bench.trace}: the saved graph is damaged ({section})" in line
