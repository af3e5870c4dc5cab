"""Launches of kernels written in Triton, whose sources stand in files beside the program."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch

from tracelens_graph.replay.program.values import device

# What stands below goes into programs.


def launcher(
    kernel: str, source: str, grid: Sequence[int], options: Mapping[str, int] | None = None, file: str = ""
) -> Callable[..., None]:
    """What launches a kernel on arguments, in the grid that was traced."""
    if device("device").type == "cpu":
        raise RuntimeError("Triton kernels run on GPUs")
    place = Path(__file__).with_name(source)
    if not place.is_file():
        called = f" as {file}" if file else ""
        raise RuntimeError(
            f"its source is not in the trace: put a file that defines {kernel} under @triton.jit into {place}; "
            f"PyTorch's compiler leaves it in its cache{called} (TORCHINDUCTOR_CACHE_DIR)"
        )
    found = loaded(place, kernel)
    if not hasattr(found, "configs") or not hasattr(found, "launchers"):
        return lambda *given, **constants: found[tuple(grid)](*given, **constants, **(options or {}))
    grid_option = {"grid": lambda meta: tuple(grid)} if "grid" in inspect.signature(found.run).parameters else {}

    def launch(*given: Any, **constants: Any) -> None:
        # What PyTorch's compiler writes tunes itself: of its configurations only the traced one stays.
        same = [one for one in found.configs or [] if all(one.kwargs.get(key) == constants[key] for key in constants)]
        found.configs = same or found.configs
        found.run(*given, **grid_option, stream=torch.cuda.current_stream().cuda_stream)

    return launch


def loaded(source: Path, kernel: str) -> Any:
    """The kernel that a file defines, by its name, else the only one in it."""
    described = spec_from_file_location(source.stem, source)
    if described is None or described.loader is None:
        raise ImportError(f"{source} is no Python file")
    module = module_from_spec(described)
    sys.modules[described.name] = module
    described.loader.exec_module(module)
    if hasattr(module, kernel):
        return getattr(module, kernel)
    kernels = [one for one in vars(module).values() if hasattr(one, "run") and hasattr(one, "fn")]
    if len(kernels) != 1:
        raise ImportError(f"{source} defines {len(kernels)} kernels, and none of them is called {kernel}")
    return kernels[0]
