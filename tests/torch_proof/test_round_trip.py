"""A training step is recorded, each of its calls becomes a program, and all are recorded as in the step."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from tracelens_graph.replay.verify.verify import verify


def record(file: Path) -> None:
    """Embedding, product, activation, norm, views and an optimizer, forward and backward."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 8), nn.GELU("tanh"), nn.LayerNorm(8))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    words = torch.randint(20, (4, 5))

    def step() -> None:
        optimizer.zero_grad()
        model(words)[:, 1:3].flatten(1).logsumexp(1).sum().backward()
        optimizer.step()

    step()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        step()
    recorded.export_chrome_trace(str(file))


def test_every_call_of_a_step(tmp_path: Path) -> None:
    record(tmp_path / "trace.json")
    command = [sys.executable, "-m", "tracelens_graph", "replay", str(tmp_path / "trace.json"), "--top", "0"]
    subprocess.run([*command, "--op", "/^aten::/", "-o", str(tmp_path / "programs")], check=True, timeout=300)
    found = verify(tmp_path / "programs")
    outcomes = Counter(found["outcome"])
    others = [one for one in found.records() if one["outcome"] not in ("equal", "equal but assumed")]
    assert sum(outcomes.values()) > 40
    assert not others
    assert outcomes["equal"] > outcomes["equal but assumed"]
