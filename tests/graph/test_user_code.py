"""Whose code a frame runs, and the line of the user that work comes from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from handmade import call, gpu, span

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.analyses.places.python_lines import python_lines
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.node import nodes_at
from tracelens_graph.graph.user_code import Code, code_of, codes_of, line_names, onward, shown_name, user_lines
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.tree_text import Choice, ladders


@pytest.mark.parametrize(
    ("code", "names"),
    [
        (Code.user, "train.py(48): step|moca/library/pipeline.py(3): run|profile.py(3): main|C:\\me\\train.py(3): f|"
         "transformers/models/bert/modeling_bert.py(411): forward|torchvision/models/resnet.py(89): forward|"
         "/opt/site-packages/timm/models/vit.py(5): forward|my_torch/_tensor.py(1): f|mine/threading.py(2): go|"
         "/home/me/bench/torch/train.py(20): forward|/home/me/src/triton/my_kernels.py(3): f|"
         "bench/torch/train.py(2): f|/home/me/proj/cuda/bindings/x.py(3): f|/home/me/email/train.py(2): f|"
         "/home/me/projects/torch/models/net.py(3): f|"
         "/home/me/torch/train.py(2): f"),
        (Code.library, "transformers/trainer.py(2): train|vllm/v1/worker/gpu_model_runner.py(3380): execute_model|"
         "/sgl-workspace/sglang/python/sglang/srt/managers/scheduler.py(9): run|numpy/_core/numeric.py(1): f|"
         "/opt/lib/python3.12/site-packages/unheard_of/it.py(3): f|PIL/Image.py(2): open|"
         "/opt/vllm/vllm/engine/core.py(2): f|/w/Megatron-LM/megatron/training/training.py(3): train"),
        (Code.plumbing, "torch/optim/adam.py(3): step|threading.py(355): wait|contextlib.py(78): inner|<string>(2): f|"
         "<frozen importlib._bootstrap>(1390): _handle_fromlist|/usr/lib/python3.12/threading.py(3): wait|"
         "/usr/lib/python3.12/site-packages/torch/optim/adam.py(3): step|/opt/pytorch/torch/optim/adam.py(3): step|"
         "/w/triton-custom/python/triton/runtime/jit.py(3): run|"
         "C:\\py\\Lib\\site-packages\\torch\\cuda\\graphs.py(1): f"),
        (Code.compiled, "/tmp/torchinductor_root/ob/cobhw.py(123): call|<eval_with_key>.10(4): forward"),
        (Code.passed_on, "torch/nn/modules/module.py(1751): _call_impl|mine/x.py(3): decorate_context|"
         "torch/_dynamo/eval_frame.py(700): _fn"),
        (Code.no_line, "<built-in method run_backward of torch._C._EngineBase object at 0x7f>|aten::add"),
    ],
)  # fmt: skip
def test_whose_code_a_frame_runs(code: Code, names: str) -> None:
    assert {name: code_of(name) for name in names.split("|")} == dict.fromkeys(names.split("|"), code)


def frames(*names: str, start: float = 0, dur: float = 100) -> list[dict[str, object]]:
    """Frames, each within the one before."""
    return [span("python_function", name, start + at, dur - 2 * at) for at, name in enumerate(names)]


def op(name: str, ts: float, dur: float) -> dict[str, object]:
    return span("cpu_op", name, ts, dur)


def lines(core: Core) -> list[str]:
    found = line_names(core, core.gpu_rows)
    assert found == [node.python_line for node in nodes_at(core, core.gpu_rows)]
    return found


PLUMBING = ("torch/nn/modules/module.py(3): _call_impl", "torch/nn/modules/linear.py(134): forward")


def test_the_nearest_line_of_the_user_counts_and_a_librarys_where_there_is_none() -> None:
    loop = "vllm/v1/worker/gpu_model_runner.py(3): run"
    work = [op("aten::mm", 10, 20), call(12, 1), gpu(30, 5, 1)]
    assert lines(load_core([*frames("train.py(1): main", loop, *PLUMBING), *work])) == ["train.py(1): main"]
    assert lines(load_core([*frames(loop, *PLUMBING), *work])) == [loop]
    assert lines(load_core([*frames(*PLUMBING), *work])) == [PLUMBING[-1]]
    everything = load_core([*frames("train.py(1): main", *PLUMBING), *work]).everything.with_all_frames()
    assert line_names(everything, everything.gpu_rows) == [PLUMBING[-1]]


def test_work_of_the_backward_pass_comes_from_the_line_that_called_it() -> None:
    run = "<built-in method run_backward of torch._C._EngineBase object at 0x7f>"
    core = load_core([
        *frames("train.py(9): main", "train.py(48): step", run), call(20, 1, tid=200), gpu(30, 5, 1),
        call(150, 2, tid=200), gpu(160, 5, 2),
    ])  # fmt: skip
    assert lines(core) == ["train.py(48): step", ""]


def test_the_way_up_goes_on_with_the_forward_op_or_with_the_call_of_the_backward_pass() -> None:
    run = "<built-in method run_backward of torch._C._EngineBase object at 0x7f>"
    engine = "autograd::engine::evaluate_function: AddmmBackward0"
    alike = {"Sequence_number": 7, "Fwd_thread_id": 1}
    core = load_core([
        *frames("train.py(9): main", "train.py(48): step"), span("cpu_op", "aten::addmm", 10, 5, Sequence_number=7),
        span("python_function", run, 30, 60), span("cpu_op", engine, 35, 20, tid=200, **alike),
        span("cpu_op", "AddmmBackward0", 36, 18, tid=200, **alike), call(40, 1, tid=200), gpu(60, 5, 1),
        call(58, 2, tid=200), gpu(70, 5, 2),
    ])  # fmt: skip
    ladder = ladders(core, core.gpu_rows.tolist(), Choice(), onward(core, core.gpu_rows))
    names = [(word, core.names[core.columns.name[row]]) for row, word in ladder]
    assert len(ladder) == len(names)
    forward, during = names[:6], names[6:]
    assert [name for _, name in forward] == [
        "gemm", "cudaLaunchKernel", "AddmmBackward0", "aten::addmm", "train.py(48): step", "train.py(9): main",
    ]  # fmt: skip
    assert forward[3][0] == "3-up, its forward op:"
    assert during[2:4] == [("2-up, during:", run), ("3-up:", "train.py(48): step")]


def test_generated_code_is_the_compiled_region_of_its_module() -> None:
    names = ("train.py(9): main", "nn.Module: Net_0", "/tmp/torchinductor_me/ob/cobhw.py(123): call")
    core = load_core([*frames(*names), call(20, 1), gpu(30, 5, 1)])
    row = int(np.flatnonzero(core.columns.dur_ns == 96_000)[0])
    assert shown_name(core, row) == "compiled region of Net"
    core = load_core([*frames(names[0], names[2]), call(20, 1), gpu(30, 5, 1)])
    row = int(np.flatnonzero(core.columns.dur_ns == 98_000)[0])
    assert shown_name(core, row) == "compiled region of train.py(9): main"


@parametrize("path", chosen_traces())
def test_the_first_line_of_real_traces_is_no_frameworks(path: Path) -> None:
    core = loaded(path)
    lines = user_lines(core, core.gpu_rows)
    if (lines >= 0).any():
        first = code_of(python_lines(core)["name"][0])
        assert first >= Code.library
        assert first == Code.user or not (codes_of(core)[lines[lines >= 0]] == Code.user).mean() > 0.5
