"""Stands in for PyTorch in scripts of tests: what runs them imports it, and scripts write profiles that are given."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_SOURCE = """
__version__ = "0"


class cuda:
    @staticmethod
    def is_available():
        return {on_gpu}


xpu = cuda


class _Settings:
    pass


class backends:
    cudnn, cuda = _Settings(), _Settings()


backends.cuda.matmul = _Settings()
"""


def install(folder: Path, on_gpu: bool = False) -> Path:
    """A folder for PYTHONPATH that holds a module `torch`."""
    (folder / "torch.py").write_text(_SOURCE.format(on_gpu=on_gpu))
    return folder


def profile(*calls: dict[str, Any]) -> dict[str, Any]:
    """A profile of calls, each made by `call`, one after another."""
    events: list[dict[str, Any]] = []
    for at, one in enumerate(calls):
        begin = 1000 * at
        host = {"ph": "X", "pid": 1, "tid": 1}
        events.append({**host, "cat": "cpu_op", "name": one["name"], "ts": begin, "dur": 900, "args": one["args"]})
        for place, child in enumerate(one["children"]):
            span = {"ts": begin + 10 + 5 * place, "dur": 2}
            events.append({**host, "cat": "cpu_op", "name": child, **span, "args": {}})
        for place, kernel in enumerate(one["kernels"]):
            linked, ts = {"correlation": 100 * at + place + 1}, begin + 500 + 10 * place
            events.append({**host, "cat": "cuda_runtime", "name": "launch", "ts": ts, "dur": 2, "args": linked})
            on_device = {"device": 0, "stream": 7, **linked}
            device = {"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": kernel}
            events.append({**device, "ts": ts + 5, "dur": 3, "args": on_device})
    return {"schemaVersion": 1, "traceEvents": events}


def call(
    name: str, dims: Sequence[Any], types: Sequence[str], children: Sequence[str] = (), kernels: Sequence[str] = ()
) -> dict[str, Any]:
    """A call of contiguous matrices, as `profile` takes it."""
    strides = [[size[-1], 1] for size in dims]
    args = {"Input Dims": dims, "Input type": types, "Input Strides": strides, "Concrete Inputs": [""] * len(dims)}
    return {"name": name, "args": args, "children": children, "kernels": kernels}


def writing(document: dict[str, Any]) -> str:
    """A script that writes a profile."""
    return f"import sys\nopen(sys.argv[sys.argv.index('--profile') + 1], 'w').write({json.dumps(document)!r})\n"
