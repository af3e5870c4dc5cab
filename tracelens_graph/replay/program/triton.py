"""The program of one kernel written in Triton, whose source stands in a file beside it."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch

from tracelens_graph.replay.program.measure import (
    arguments,
    check_fits,
    ended,
    known_of,
    measure_call,
    options,
    show,
    write_results,
)
from tracelens_graph.replay.program.values import build_on

PLAN: dict[str, Any] = {}

# What stands below goes into programs.

NOT_FILLED = 3


def main() -> int:
    """Measure the kernel, if its source is there."""
    parser = options(__doc__)
    parser.add_argument("--kernel-source", metavar="FILE", help="file that defines the kernel; see the message without")
    asked = parser.parse_args()
    if asked.device == "cpu":
        parser.error("Triton kernels run on GPUs")
    source = Path(asked.kernel_source or Path(__file__).with_name(PLAN["source"]))
    if not source.is_file():
        print(wanted(source))
        return NOT_FILLED
    return ended(lambda: run(source, asked), PLAN["kernel"], asked)


def run(source: Path, asked: argparse.Namespace) -> int:
    """Measure the kernel that a file defines."""
    known = known_of(PLAN["plan"]) | {"op": PLAN["kernel"]}
    result = measure_call(launcher(loaded(source), asked.device), known, asked)
    show(result)
    write_results(asked.json, [result])
    return 0


def wanted(source: Path) -> str:
    """What has to be done before the kernel can run."""
    called = f", as {PLAN['file']}" if PLAN["file"] else ""
    return (
        f"The source of {PLAN['kernel']} is not in the trace. Put it into\n  {source}\n"
        f"PyTorch's compiler leaves it in its cache (TORCHINDUCTOR_CACHE_DIR){called}.\n"
        "Any file will do that defines a function of that name under @triton.jit."
    )


def loaded(source: Path) -> Any:
    """The kernel that a file defines, by its name, else the only one in it."""
    described = spec_from_file_location("kernel_source", source)
    if described is None or described.loader is None:
        raise ImportError(f"{source} is no Python file")
    module = module_from_spec(described)
    sys.modules[described.name] = module
    described.loader.exec_module(module)
    if hasattr(module, PLAN["kernel"]):
        return getattr(module, PLAN["kernel"])
    kernels = [one for one in vars(module).values() if hasattr(one, "run") and hasattr(one, "fn")]
    if len(kernels) != 1:
        raise ImportError(f"{source} defines {len(kernels)} kernels, and none of them is called {PLAN['kernel']}")
    return kernels[0]


def launcher(kernel: Any, device: str) -> Callable[[], Any]:
    """A launch of the kernel on its arguments, in the grid that was traced."""
    check_fits(lambda: arguments(PLAN["plan"]), device)
    build_on(device)
    positional, constants = arguments(PLAN["plan"])
    grid, tuned = tuple(PLAN["grid"]), PLAN["options"]
    if not hasattr(kernel, "configs") or not hasattr(kernel, "launchers"):
        return lambda: kernel[grid](*positional, **constants, **tuned)
    # What PyTorch's compiler writes tunes itself, and knows its grid: of its configurations only the traced one stays.
    same = [one for one in kernel.configs or [] if all(one.kwargs.get(key) == constants[key] for key in constants)]
    kernel.configs = same or kernel.configs
    grid_option = {"grid": lambda meta: grid} if "grid" in inspect.signature(kernel.run).parameters else {}
    stream = torch.cuda.current_stream().cuda_stream
    return lambda: kernel.run(*positional, **grid_option, stream=stream)
