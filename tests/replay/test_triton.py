"""Programs of Triton kernels, which lack the kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from handmade import span
from replay_plans import plan_in

from corpus import CORPUS, needs_corpus
from tracelens_graph.errors import AnalysisError, CannotReplay, NotAPlanError
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.plan_json import plan_from_json, plan_json
from tracelens_graph.replay.planned import planned
from tracelens_graph.replay.replay_plan import Launch, ReplayPlan, TensorValue
from tracelens_graph.replay.sequence import sequence
from tracelens_graph.replay.triton import is_triton, kernel_sources, triton_plan

NAME = "triton_poi_fused_add_0"
ARGS: dict[str, Any] = {
    "Input Dims": [[8, 4], [4], []], "Input type": ["c10::BFloat16", "long int", "Scalar"],
    "Input Strides": [[1, 8], [1], []], "Concrete Inputs": ["", "", "32"], "grid": "grid(100,)",
    "kernel_file": "/tmp/somebody/qa/cabc123.py", "kernel_kwargs": "XBLOCK=16, EVEN=True", "num_warps": 4,
    "num_stages": 1,
}  # fmt: skip


def core(name: str = NAME, *, grid: Any = (2, 1, 1), **changed: Any) -> Core:
    call = span("cpu_op", name, 0, 20)
    call["args"] |= {key: value for key, value in {**ARGS, **changed}.items() if value is not None}
    launch = span("cuda_runtime", "cuLaunchKernel", 5, 2, correlation=1)
    kernel = span("kernel", name, 30, 12.5, 0, 7, device=0, stream=7, correlation=1, grid=grid)
    return load_core({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": [call, launch, kernel]})


def made(*given: Any, **changed: Any) -> ReplayPlan:
    g = core(*given, **changed)
    return triton_plan(g, g.row(0))


def launch(**changed: Any) -> Launch:
    found = made(**changed).launch
    assert found is not None
    return found


def test_a_plan_has_arguments_grid_and_constants() -> None:
    found = made()
    options = {"num_warps": 4, "num_stages": 1}
    assert found.launch == Launch(NAME, f"{NAME}_source.py", (2, 1, 1), options, "cabc123.py")
    first, second, third = (one.value for one in found.positional)
    assert first == TensorValue((8, 4), "bfloat16", (1, 8))
    assert isinstance(second, TensorValue)
    assert (second.fill.rule, third) == ("zeros", 32)
    assert {one.name: one.value for one in found.keyword} == {"XBLOCK": 16, "EVEN": True}
    assert found.assumed == ("arg1: zeros, which are in bounds if they are indices",)


def test_a_kernel_lacks_its_source_and_so_cannot_be_replayed_as_it_is() -> None:
    g = core()
    found = planned(g, g.row(0))
    assert (found.state, found.why) == ("no", "Triton kernel")
    assert found.plan == made()
    with pytest.raises(CannotReplay, match="the source of the kernel is not in the trace"):
        made().run()
    assert f"needs PyTorch and {NAME}_source.py" in made().script()


def test_paths_stay_out_of_programs() -> None:
    assert "somebody" not in made().script()
    assert launch(kernel_file="C:\\somebody\\cdef.py").file == "cdef.py"
    assert launch(kernel_file='"; import os').file == ""


def test_the_grid_is_the_kernels_own() -> None:
    assert launch(grid=[7, 2, 1]).grid == (7, 2, 1)
    with pytest.raises(CannotReplay, match="its grid is not recorded"):
        made(grid=[0, 1, 1])


def test_without_a_grid_kernels_show_that_a_graph_launched_them() -> None:
    """Another recording of GPU work helps only where there is none."""
    with pytest.raises(CannotReplay) as found:
        made(grid=None)
    assert found.value.remedy == "record a run without graphs"
    bare = load_core({"traceEvents": [span("cpu_op", NAME, 0, 20, **{k: v for k, v in ARGS.items() if k != "grid"})]})
    with pytest.raises(CannotReplay) as found:
        triton_plan(bare, bare.row(0))
    assert "GPU" in found.value.remedy


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"Input type": None}, "arguments are not recorded"),
        ({"Input type": ["c10::BFloat16", "", "Scalar"]}, "an argument of type none is not recorded"),
        ({"Concrete Inputs": ["", "", "?"]}, "values of arguments are not recorded"),
    ],
)
def test_what_is_not_recorded_is_refused(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(CannotReplay, match=reason):
        made(**changed)


def test_other_ops_are_none() -> None:
    g = core("aten::mm")
    assert not is_triton(g, g.row(0))


@pytest.mark.parametrize("name", [NAME, 'triton_"; import os #', "triton_\x00\n", "triton_" + "x" * 3000])
def test_programs_are_checked_and_plans_go_through_json(name: str) -> None:
    found = made(name)
    assert plan_in(found.script(), "full")[0]["launch"]["kernel"] == name
    assert plan_from_json(plan_json(found)) == found


@pytest.mark.parametrize("source", ["/tmp/other.py", "../other.py", "other", ""])
def test_a_source_beside_the_program_alone_is_read(source: str) -> None:
    plan = plan_json(made())
    plan["launch"]["source"] = source
    with pytest.raises(NotAPlanError, match=r"launch.source: "):
        plan_from_json(plan)


def test_sources_of_kernels_go_beside_their_programs(tmp_path: Path) -> None:
    plans = [made(name) for name in (NAME, "triton_red_fused_sum_1")]
    file = tmp_path / "kernels.py"
    file.write_text(f"@triton.jit\ndef {NAME}(x):\n    pass\n")
    assert kernel_sources(plans, [file]) == {f"{NAME}_source.py": file.read_text()}
    assert kernel_sources(plans, []) == {}
    file.write_text("def kernel(x):\n    pass\n")
    assert list(kernel_sources(plans[:1], [file])) == [f"{NAME}_source.py"]
    with pytest.raises(AnalysisError, match=rf"kernels.py: defines none of the kernels: {NAME}, triton_red"):
        kernel_sources(plans, [file])
    with pytest.raises(AnalysisError, match="kernels.py: defines none of the kernels: there is no Triton kernel among"):
        kernel_sources([], [file])
    with pytest.raises(AnalysisError, match="none.py: cannot be read: no such file"):
        kernel_sources(plans, [tmp_path / "none.py"])


@needs_corpus
def test_recorded_kernels_have_programs() -> None:
    assert CORPUS
    g = load_core(str(CORPUS / "tracelens/mi300/torch-compile-triton.json.gz"))
    found = [triton_plan(g, node.row) for node in g.find("Op", pattern="^triton_")]
    grids = [one.launch.grid for one in found if one.launch]
    assert len(grids) == 4
    assert grids[0] == (16384, 1, 1)
    assert {one.name: one.value for one in found[0].keyword} == {"XBLOCK": 2, "R0_BLOCK": 2048}
    written = [plan_in(one.script(), "full")[0]["launch"]["grid"] for one in found]
    assert written == list(map(list, grids))
    region = sequence(g, "Torch-Compiled Region: 0/0")
    assert [one.launch.grid for one in region.plans if one.launch] == grids
    assert len(region.plans) == 12
