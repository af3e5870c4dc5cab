from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from handmade import Run, span

WHOLE = """\
Process 100, main
└── (python) train.py(3): step
    └── (python) nn.Module: Linear_0
        ├── (cpu) aten::linear
        │   └── (cpu) aten::addmm
        │       ├── (runtime) cudaLaunchKernel
        │       │   └── (kernel) gemm
        │       └── (runtime) cudaMemcpyAsync
        │           └── (memcpy) Memcpy DtoH
        └── (cpu) aten::empty
Process 100, thread 200
└── (cpu) aten::relu
GPU events without a launch in the trace
└── (kernel) evil\\x1b[31m|`<b>\\n=1+1
"""


def test_whole_tree(run: Run, trace_file: Path) -> None:
    assert run("tree", trace_file) == (0, WHOLE, "")


def test_below_a_name_with_gpu_time_and_full_labels(run: Run, trace_file: Path) -> None:
    _, out, _ = run(
        "tree", trace_file, "--name", "aten::addmm", "--labels", "full", "--gpu-time", "--uids", env={"COLUMNS": "120"}
    )
    assert out.splitlines() == [
        "└── UID: 6, Category: cpu_op, Name: aten::addmm, GPU time: 70.250 us, busy: 60.000 us",
        "    ├── UID: 7, Category: cuda_runtime, Name: cudaLaunchKernel, GPU time: 50.250 us, busy: 50.250 us",
        "    │   └── UID: 9, Category: kernel, Name: gemm, GPU time: 50.250 us, busy: 50.250 us",
        "    └── UID: 8, Category: cuda_runtime, Name: cudaMemcpyAsync, GPU time: 20.000 us, busy: 20.000 us",
        "        └── UID: 10, Category: gpu_memcpy, Name: Memcpy DtoH, GPU time: 20.000 us, busy: 20.000 us",
    ]


def test_only_some_kinds_on_paths_to_gpu_work(run: Run, trace_file: Path) -> None:
    _, out, _ = run("tree", trace_file, "--kind", "Module", "--kind", "gpu", "--prune")
    assert out.splitlines() == [
        "Process 100, main",
        "└── (python) nn.Module: Linear_0",
        "    ├── (kernel) gemm",
        "    └── (memcpy) Memcpy DtoH",
        "GPU events without a launch in the trace",
        "└── (kernel) evil\\x1b[31m|`<b>\\n=1+1",
    ]


def test_depth(run: Run, trace_file: Path) -> None:
    _, out, _ = run("tree", trace_file, "--uid", 4, "--depth", 1)
    assert out.splitlines() == [
        "└── (python) nn.Module: Linear_0",
        "    ├── (cpu) aten::linear",
        "    └── (cpu) aten::empty",
    ]


def test_host_time_is_a_screen(run: Run, tmp_path: Path) -> None:
    """Numbers stand left of the tree, chains are folded, and short calls are counted."""
    steps = [span("python_function", f"train.py({i}): step", 1000 * i, 900) for i in range(1, 31)]
    parts = [span("cpu_op", f"aten::part{part}", 1000 * i + 20 * part, 10) for i in range(1, 31) for part in range(40)]
    outer = [span("python_function", f"train.py({i}): outer", i, 40000 - 2 * i) for i in range(5)]
    calls = [span("cpu_op", "aten::mm", 1000 * i, 860) for i in range(1, 31)]
    path = tmp_path / "host.json"
    path.write_text(json.dumps({"traceEvents": [*outer, *steps, *calls, *parts]}))
    code, out, _ = run("tree", path, "--host-time", env={"COLUMNS": "80"})
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split("  ")[0] == "host ms"
    assert [line for line in lines if "outer" in line] == [" 39.992   12.992  └─train.py(4): outer"]
    assert sum("aten::mm" in line for line in lines) == 30
    assert not any("step" in line or "part" in line for line in lines)
    assert max(map(len, lines)) <= 80
    assert "left out" in out
    _, whole, _ = run("tree", path, "--host-time", "--max-lines", 0, env={"COLUMNS": "80"})
    assert sum("part" in line for line in whole.splitlines()) == 1200
    _, below, _ = run("tree", path, "--host-time", "--name", "aten::mm", "--max-lines", 3, env={"COLUMNS": "80"})
    assert "left out" in below


def test_threads_in_the_background_are_no_part_of_a_screen(run: Run, tmp_path: Path) -> None:
    monitor = [
        span("python_function", "tqdm/_monitor.py(60): run", 0, 1000, tid=9),
        span("python_function", "threading.py(359): wait", 1, 998, tid=9),
    ]
    path = tmp_path / "monitor.json"
    path.write_text(json.dumps({"traceEvents": [*monitor, span("cpu_op", "aten::mm", 0, 500)]}))
    _, out, _ = run("tree", path, "--host-time")
    assert "monitor" not in out
    assert "aten::mm" in out
    _, whole, _ = run("tree", path, "--host-time", "--max-lines", 0)
    assert "monitor" in whole


def test_up(run: Run, trace_file: Path) -> None:
    _, out, _ = run("tree", trace_file, "--name", "gemm", "--up", "--labels", "full")
    assert out.splitlines()[:6] == [
        "Node:", "  cat: kernel", "  name: gemm", "1-up:", "  cat: cuda_runtime", "  name: cudaLaunchKernel",
    ]  # fmt: skip
    _, out, _ = run("tree", trace_file, "--name", "gemm", "--up", "--kind", "op")
    node, addmm, linear = out.splitlines()
    assert (node, linear.partition(",")[0]) == ("Node: (kernel) gemm, 50.2 us", "2-up: (cpu) aten::linear")
    assert addmm.startswith("1-up: (cpu) aten::addmm, ")
    assert "GPU 70.2 us" in addmm


def test_matches_below_a_match_are_drawn_once(run: Run, trace_file: Path) -> None:
    _, out, _ = run("tree", trace_file, "--name", "/^aten::/")
    assert out.count("aten::addmm") == 1
    assert [line for line in out.splitlines() if line.startswith("└")] == [
        "└── (cpu) aten::linear", "└── (cpu) aten::empty", "└── (cpu) aten::relu",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("selection", "first"),
    [
        (["--ext-id", 2, "--pid", 100, "--tid", 100], "└── (cpu) aten::addmm"),
        (["--ext-id", 2, "--pid", 0, "--tid", 7], "└── (kernel) gemm"),
        (["--ext-id", 2, "--pid", 0, "--tid", 8], "└── (memcpy) Memcpy DtoH"),
        (["--tid", 200], "└── (cpu) aten::relu"),
        (["--uid", 12], "└── (cpu) aten::relu"),
    ],
)
def test_selection(run: Run, trace_file: Path, selection: list[object], first: str) -> None:
    code, out, _ = run("tree", trace_file, *selection)
    assert (code, out.splitlines()[0]) == (0, first)


def test_more_lines_are_counted(run: Run, trace_file: Path) -> None:
    _, out, _ = run("tree", trace_file, "--max-lines", 3)
    assert out.splitlines() == [*WHOLE.splitlines()[:3], "... 11 more lines (--max-lines 0 shows all)"]


def test_nothing_found_says_what_was_meant(run: Run, trace_file: Path) -> None:
    code, out, err = run("tree", trace_file, "--name", "aten::liner")
    assert (code, out) == (1, "")
    assert err == "error: no node has name 'aten::liner'; did you mean aten::linear?\n"


def test_uid_of_no_node(run: Run, trace_file: Path) -> None:
    code, _, err = run("tree", trace_file, "--uid", 0)
    assert (code, err) == (1, "error: no node has uid 0; that entry of the file is not a node\n")


def test_terminal_without_lines_to_draw_with(trace_file: Path) -> None:
    command = [sys.executable, "-c", "from tracelens_graph.cli import main; main()", "tree", str(trace_file)]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, check=True, env=environment)
    assert done.stdout.decode("ascii").splitlines()[3:6] == [
        "        |-- (cpu) aten::linear",
        "        |   `-- (cpu) aten::addmm",
        "        |       |-- (runtime) cudaLaunchKernel",
    ]


@pytest.mark.parametrize("arguments", [["--up"], ["--name", "/(/"], ["--kind", "Kernle"]])
def test_wrong_usage(run: Run, trace_file: Path, arguments: list[str]) -> None:
    code, _, err = run("tree", trace_file, *arguments)
    assert code == 2
    assert err.startswith("error: --")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("command", ["tree", "cut"])
def test_a_uid_beyond_all_numbers_is_no_node(run: Run, trace_file: Path, tmp_path: Path, command: str) -> None:
    more = ["-o", tmp_path / "cut.json"] if command == "cut" else []
    code, _, err = run(command, trace_file, "--uid", 10**20, *more)
    assert (code, err) == (1, f"error: no node has uid {10**20}\n")
