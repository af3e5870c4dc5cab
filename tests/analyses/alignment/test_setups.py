"""What differs beside the program stands first, and what that forbids to conclude."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from call_trees import FORWARD, launch, load, op

from tracelens_graph.analyses.alignment.compared_steps import median_steps
from tracelens_graph.analyses.alignment.difference import Diff, diff
from tracelens_graph.analyses.alignment.setups import setup_lines
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


def test_lines_have_room_on_a_screen() -> None:
    a = with_metadata(run(), **{f"part_{n}_version": f"{n}.0" for n in range(20)})
    b = with_metadata(run(batch=4), **{f"part_{n}_version": f"{n}.1" for n in range(20)})
    lines = setup_lines(compared(a, b))
    assert max(map(len, lines)) < 100
    assert lines[0].endswith(" more")
    long = compared(*(with_metadata(run(), batch_size=letter * 5000) for letter in "ab"))
    assert max(map(len, setup_lines(long))) < 100
