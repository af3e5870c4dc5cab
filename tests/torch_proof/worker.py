"""One process of the proof: it records programs, plans their calls, replays them, and writes what came out.

    python tests/torch_proof/worker.py workloads plan|short FILE NAME...
    python tests/torch_proof/worker.py opinfo plan|short FILE NUMBER...

A line of JSON for each name or number: before it is begun, and when it is done.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from instances import check, silence
from recording import record, record_both
from workloads import WITHOUT_OBSERVER, WORKLOADS

SAMPLES = 5
"""Samples of each entry of PyTorch's table of operators."""


def workload(name: str) -> tuple[str, Callable[[], object]]:
    """A workload, warmed up, with gradients of earlier steps there."""
    step = WORKLOADS[name]()
    step()
    return name, step


def opinfo(number: str) -> tuple[str, Callable[[], object]]:
    """The first samples of an entry of PyTorch's table of operators, forward."""
    from torch.testing._internal.common_methods_invocations import op_db

    entry = op_db[int(number)]
    name = f"{entry.name}{f' ({entry.variant_test_name})' if entry.variant_test_name else ''}"
    dtypes = entry.supported_dtypes("cpu")
    dtype = next((one for one in (torch.float32, torch.int64, torch.complex64) if one in dtypes), None)
    if dtype is None:
        dtype = sorted(dtypes, key=str)[0] if dtypes else torch.float32
    samples = []
    for _, sample in zip(range(SAMPLES), entry.sample_inputs("cpu", dtype, requires_grad=False), strict=False):
        samples.append(sample)

    def step() -> None:
        for sample in samples:
            try:
                entry(sample.input, *sample.args, **sample.kwargs)
            except Exception as error:
                print(f"{name}: {type(error).__name__}", file=sys.stderr)

    return name, step


def main() -> None:
    """Work on each name or number."""
    kind, form, file, *wanted = sys.argv[1:]
    prepare: dict[str, Callable[[str], Any]] = {"workloads": workload, "opinfo": opinfo}
    silence()
    with open(file, "a", buffering=1) as out, tempfile.TemporaryDirectory() as folder:
        for one in wanted:
            out.write(json.dumps({"begun": one}) + "\n")
            try:
                torch.manual_seed(0)
                name, step = prepare[kind](one)
                trace = record(step, Path(folder), kind)
                told: dict[str, Any] = {
                    "done": one,
                    "name": name,
                    "alone": check(trace, None, Path(folder), form).as_json(),
                }
                if kind == "workloads" and one not in WITHOUT_OBSERVER:
                    told["linked"] = check(*record_both(step, Path(folder), kind), Path(folder), form).as_json()
            except Exception as error:
                told = {"done": one, "error": f"{type(error).__name__}: {error}"}
            out.write(json.dumps(told) + "\n")


main()
