"""Where in the program an op stands: frames that are no user's are passed by."""

from __future__ import annotations

import pytest
from call_trees import FORWARD, frame, launch, load, op

from tracelens_graph.analyses.shared.call_stacks import NOT_FOUND, entry_points
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.schema import Kind

NOBODYS = [
    "torch/_tensor.py(34): wrapped",
    "torch/functional.py(77): broadcast_tensors",
    "torch/nn/functional.py(1693): relu",
    "/usr/lib/python3.12/site-packages/torch/utils/_contextlib.py(120): decorate_context",
    "torch/overrides.py(1720): handle_torch_function",
    "torch/_functorch/_aot_autograd/runtime_wrappers.py(311): runtime_wrapper",
    "torch/_inductor/output_code.py(466): __call__",
    "triton/backends/nvidia/driver.py(512): __call__",
    "torch/distributed/c10d_logger.py(81): wrapper",
    "mine/helpers.py(3): decorate_context",
    "aiter/jit/core.py(900): wrapper_custom",
    "sgl/ops.py(12): dispatch_wrapper",
    "torch/nn/modules/module.py(1751): _call_impl",
    "torch/_ops.py(1123): __call__",
]


@pytest.mark.parametrize("passed_by", NOBODYS)
def test_frames_that_are_no_users_are_passed_by(passed_by: str) -> None:
    core = load({FORWARD: [frame("train.py(3): step", frame(passed_by, op("aten::thing", launch())))]})
    assert entry_points(core, rows_of_kind(core.columns, (Kind.Op,))) == ["train.py(3): step"]


@pytest.mark.parametrize(
    "own",
    [
        "functional.py(3): run",
        "mine/overrides.py(9): patch",
        "my_torch/_tensor.py(1): f",
        "model.py(2): decorate_contexts",
    ],
)
def test_frames_of_the_user_stay(own: str) -> None:
    core = load({FORWARD: [frame("train.py(3): step", frame(own, op("aten::thing", launch())))]})
    assert entry_points(core, rows_of_kind(core.columns, (Kind.Op,))) == [own]


def test_nobodys_frames_alone_are_no_place() -> None:
    core = load({FORWARD: [frame(NOBODYS[0], frame("<built-in method apply>", op("aten::thing", launch())))]})
    assert entry_points(core, rows_of_kind(core.columns, (Kind.Op,))) == [NOT_FOUND]
