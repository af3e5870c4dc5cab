"""What differs beside the program stands first, and what that forbids to conclude."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from call_trees import FORWARD, Call, annotation, launch, load, op

from tracelens_graph.analyses.alignment.compared_steps import median_steps
from tracelens_graph.analyses.alignment.difference import Diff, diff
from tracelens_graph.analyses.alignment.setups import amount_of_work, setup_lines
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import changed
from tracelens_graph.graph.window import whole_window
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate


def run(**settings: Any) -> Core:
    return load_core(simulate(**{"steps": 2, "layers": 1, **settings}).ranks[0].trace)


def compared(a: Core, b: Core) -> Diff:
    return diff(*median_steps(whole_window(a), whole_window(b)))


def with_metadata(core: Core, **values: Any) -> Core:
    return changed(core, info=replace(core.info, metadata={**core.info.metadata, **values}))


def test_equal_runs_are_comparable() -> None:
    assert setup_lines(compared(run(), run(seed=1, recompute="non_reentrant"))) == []


@pytest.mark.parametrize(
    ("settings", "what", "forbidden"),
    [
        ({"batch": 4}, "other sizes: ", "times are not of equal work (other sizes)"),
        ({"python_stacks": False}, "Python stacks only in A", "idle time is not comparable (stacks slow the host)"),
        ({"shapes": False}, "shapes only in A", "other sizes of arguments would not be seen"),
        ({"ranks": 2}, "ranks 1 -> 2", "collectives and work of a rank differ by its job"),
    ],
)
def test_settings_of_a_run(settings: dict[str, Any], what: str, forbidden: str) -> None:
    first = "" if "ranks" not in settings else "ranks"
    a = with_metadata(run(), distributedInfo={"rank": 0, "world_size": 1}) if first else run()
    lines = " ".join(setup_lines(compared(a, run(**settings))))
    assert what in lines
    assert forbidden in lines


@pytest.mark.parametrize(
    ("key", "values", "line"),
    [
        ("deviceProperties", ([{"id": 0, "name": "one"}], [{"id": 0, "name": "other"}]), "Unlike: GPUs"),
        ("cuda_runtime_version", (12040, 12060), "Unlike: cuda runtime 12.4 -> 12.6"),
        ("deviceProperties", ([{"name": "one", "clockRate": 1}], [{"name": "one", "clockRate": 2}]),
         "Unlike: clockRate 1 -> 2"),
        ("system", ({"gpu": {"power_limit_w": 700}}, {"gpu": {"power_limit_w": 400}}),
         "Unlike: power_limit_w 700 -> 400"),
        ("profile_memory", (1, 0), "Unlike: memory events only in A"),
    ],
)  # fmt: skip
def test_what_files_name(key: str, values: tuple[Any, Any], line: str) -> None:
    core = run()
    first, second = (with_metadata(core, **{key: value}) for value in values)
    assert setup_lines(compared(first, second))[0].startswith(line)


@pytest.mark.parametrize(
    ("dims", "types", "what"),
    [
        ([[8, 4], [4, 4], []], ["c10::BFloat16", "c10::Float8", "int"], "other types: BFloat16 became Float8"),
        ([[2, 4], [4, 4]], ["c10::BFloat16"] * 2, "other sizes: 8x4 became 2x4"),
        ([[8, 4], [4, 4], []], ["c10::BFloat16", "c10::BFloat16", "int"], ""),
    ],
)
def test_arguments_of_fused_work_are_those_of_the_op_that_both_call(
    dims: list[Any], types: list[str], what: str
) -> None:
    plain = {"Input Dims": [[8, 4], [4, 4]], "Input type": ["c10::BFloat16"] * 2}
    apart = op("layer", op("one", launch("k1", 5)), op("two", launch("k2", 9)), **plain)
    fused = op("layer", op("all", launch("k3", 6)), **{"Input Dims": dims, "Input type": types})
    lines = " ".join(setup_lines(diff(load({FORWARD: [apart]}), load({FORWARD: [fused]}))))
    assert (what in lines) if what else lines == ""


def test_numbers_of_steps_count_where_steps_are_added_up() -> None:
    a, b = run(), run(steps=3)
    assert setup_lines(compared(a, b)) == []
    assert setup_lines(diff(a, b))[0].startswith("Unlike: steps 2 -> 3")


def block(*kernels: str) -> Call:
    return op("block", *(launch(kernel, 2) for kernel in kernels))


BLOCK = block("k1", "k2", "k3")


def recording(blocks: int, of: Call = BLOCK, wait: int = 0, steps: int = 0) -> Core:
    """Equal blocks; the host waits that many us before the last. Or a step around each of several parts."""
    calls = [*[op("block", *of.calls) for _ in range(blocks - 1)], *[op("wait") for _ in range(wait // 2)],
             op("block", *of.calls)]  # fmt: skip
    size = -(-len(calls) // steps) if steps else 0
    parts = [annotation(f"ProfilerStep#{n}", *calls[n * size : (n + 1) * size]) for n in range(steps)]
    return load({FORWARD: parts or calls})


# A block takes 8 us of the host, so that three fewer and 24 us more are as long.
@pytest.mark.parametrize(
    ("a", "b", "factor"),
    [
        (recording(20), recording(17, wait=24), "0.85"),
        (recording(17, wait=24), recording(20), "1.18"),
        # as many calls; fewer in less time, which may be the same work without repetition; few calls
        (recording(20), recording(20), ""),
        (recording(20), recording(17), ""),
        (recording(5), recording(4, wait=8), ""),
        # no kernel in common, however alike their numbers are
        (recording(20), recording(8, block("k4", "k5", "k6")), ""),
        # a fusion in all blocks, and work of which half is gone, leave other kernels as often as before
        (recording(20), recording(20, block("k1", "k23"), wait=40), ""),
        (recording(20, block("k1", "k2", "k3", "k3")), recording(20, wait=40), ""),
        (recording(20, steps=2), recording(17, wait=24, steps=2), ""),
    ],
)
def test_fewer_calls_in_as_long_a_recording_are_less_work(a: Core, b: Core, factor: str) -> None:
    lines = [line for line in setup_lines(diff(a, b)) if "amount of work" in line or "compare speed" in line]
    expected = [f"Unlike: amount of work (calls {factor}x)", "So: totals do not compare speed: a call takes 1.00x"]
    assert lines == (expected if factor else [])


def test_a_call_of_other_time_is_told_apart_from_the_number_of_calls() -> None:
    slower = op("block", *(launch(kernel, 3) for kernel in ("k1", "k2", "k3")))
    work = amount_of_work(diff(recording(20), recording(17, slower, wait=24)))
    assert work is not None
    assert (work.what, work.forbids[-6:]) == ("amount of work (calls 0.85x)", " 1.50x")


def test_lines_have_room_on_a_screen() -> None:
    a = with_metadata(run(), **{f"part_{n}_version": f"{n}.0" for n in range(20)})
    b = with_metadata(run(batch=4), **{f"part_{n}_version": f"{n}.1" for n in range(20)})
    lines = setup_lines(compared(a, b))
    assert max(map(len, lines)) < 100
    assert lines[0].endswith(" more")
    long = compared(*(with_metadata(run(), batch_size=letter * 5000) for letter in "ab"))
    assert max(map(len, setup_lines(long))) < 100
