"""Programs that were compiled during a recording of JAX: how many, how long, which; what a report says of it."""

from __future__ import annotations

import numpy as np
import plain_xplane as plain
from handmade import small_trace
from handmade_jax import training_profile
from made_hlo import F32, computation, instruction, program, shape
from plain_xplane import Plane

from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.ops.programs import compilations, programs
from tracelens_graph.analyses.report.inventory import inventory
from tracelens_graph.analyses.report.report_tables import report_tables
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core

US = 1_000_000
MS = 1000 * US


def recorded(*calls: tuple[str, int], steps: bool = True) -> Core:
    """Calls of functions, 100 ms apart, with a compilation of so many ms in each but where it is 0.

    Three programs `jit_f` and one `jit__lambda_` ran, one in each of the first four calls.
    """
    known, host, pool = Plane("/host:metadata"), Plane("/host:CPU"), []
    for number, name in ((1, "jit_f"), (2, "jit_f"), (3, "jit_f"), (4, "jit__lambda_")):
        of = shape(F32, number)
        known.program(
            number, f"{name}({number})",
            program(name, 1, computation(1, "main", 12, instruction(11, "x", "parameter", of),
                                         instruction(12, "neg.1", "negate", of, [11]))),
        )  # fmt: skip
    python = []
    for at, (function, ms) in enumerate(calls):
        begin = at * 100 * MS
        if steps:
            python.append(host.event("train", begin, 90 * MS, step_num=at))
        python += [host.event(f"PjitFunction({function})", begin + US, 89 * MS)] * 2
        if ms:
            python.append(host.event("lower_sharding_computation", begin + 2 * US, MS))
            python.append(host.event("backend_compile_and_load", begin + 2 * MS, ms * MS))
            # The compiler's own thread works while Python's waits for it: that counts once.
            pool.append(host.event("PjRtCpuClient::Compile", begin + 2 * MS + US, ms * MS // 2))
        python.append(host.event("neg.1", begin + 80 * MS, MS, hlo_op="&neg.1", program_id=at % 4 + 1))
    host.line(3, "python", 1000, *python)
    host.line(4, "pool", 1000, *pool)
    return load_core(plain.written(known, host))


def test_the_last_numbers_of_a_name_were_compiled_meanwhile() -> None:
    core = recorded(("f", 0), ("f", 20), ("f", 30), ("<lambda>", 5))
    found = compilations(core.everything)
    assert (found.count, found.ns) == (3, (20 + 30 + 5 + 3) * 10**6)
    assert found.of_call == {"f": [21_000_000, 31_000_000], "<lambda>": [6_000_000]}
    told = {row["shapes"]: row["compile_ms"] for row in programs(core).records()}
    assert np.isnan(told.pop("f32[1] -> f32[1]"))  # before
    assert told == {"f32[2] -> f32[2]": 21, "f32[3] -> f32[3]": 31, "f32[4] -> f32[4]": 6}


def test_more_compilations_than_programs_are_divided_among_none() -> None:
    core = recorded(*[("f", 10)] * 4)
    assert compilations(core.everything).count == 4
    assert np.isnan(np.array(programs(core)["compile_ms"], float)).all()


def test_a_step_alone() -> None:
    core = recorded(("f", 10), ("f", 20), ("f", 0))
    found = compilations(core.window(step=1))
    assert (found.count, found.of_call) == (1, {"f": [21_000_000]})


def test_it_is_said() -> None:
    core = recorded(("f", 0), ("f", 20), ("f", 30), ("<lambda>", 5))
    facts = {row["what"]: row["value"] for row in inventory(core)["trace"].records()}
    assert (facts["programs compiled"], facts["tracing and compiling"]) == (3, 58.0)
    by_topic = {one.topic: one.text for one in verdict(core)}
    assert by_topic["compiled"] == "Compiled 3 programs during the recording: 58.0 ms (f 2 x, <lambda>)"
    assert by_topic["host_programs"].startswith("Instructions on the host: jit_f 3.00 ms in 3 executions, ")
    assert by_topic["host_steps"].startswith("4 steps on the host: 90.0 ms in the median")
    assert verdict(core)[0].ask_next == "tracelens-graph ask programs TRACE"


def test_a_report_has_the_programs_of_jax_alone() -> None:
    assert "programs" in list(report_tables(recorded(("f", 0))))
    assert "programs" not in list(report_tables(load_core(small_trace())))


def test_nothing_is_said_where_nothing_was_compiled() -> None:
    core = load_core(training_profile(steps=2))
    assert compilations(core.everything).count == 0
    assert "compiled" not in [one.topic for one in verdict(core)]
    facts = {row["what"]: row["value"] for row in inventory(core)["trace"].records()}
    assert facts["programs compiled"] is None
