"""Record a tiny transformer's training on the CPU: the profiler's trace and the execution trace of one run.

    pip install torch
    python examples/record_cpu.py

writes examples/traces/tiny-transformer-cpu.json.gz and tiny-transformer-cpu.execution-trace.json.gz. Needs
PyTorch 2.4 or newer: from then on both recorders number the same operators alike (`Record function id` in
one, `rf_id` in the other).
"""

from __future__ import annotations

import gzip
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own convention)
from torch import Tensor, nn
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, record_function, schedule

WIDTH, HEADS, LAYERS, TOKENS, VOCABULARY, BATCH = 32, 4, 2, 16, 64, 2
STEPS = 2
FOLDER = Path(__file__).parent / "traces"
KEPT = {
    "schemaVersion",
    "deviceProperties",
    "distributedInfo",
    "record_shapes",
    "with_stack",
    "with_modules",
    "profile_memory",
    "trace_id",
    "displayTimeUnit",
    "baseTimeNanoseconds",
    "traceEvents",
}
"""Everything else at the top of the trace may tell about the machine."""


class CausalSelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        parts = self.qkv(x).split(width, dim=2)
        q, k, v = (part.view(batch, tokens, HEADS, width // HEADS).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width))


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.act = nn.GELU()
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.act(self.up(x)))


class TransformerLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = CausalSelfAttention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = MLP()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class TinyTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(TOKENS, WIDTH)
        self.layers = nn.ModuleList(TransformerLayer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, indices: Tensor) -> Tensor:
        x = self.tokens(indices) + self.positions(torch.arange(TOKENS))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def train(model: nn.Module, steps: int, recorder: profile) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    for _ in range(steps):
        with record_function("## batch ##"):
            tokens = torch.randint(VOCABULARY, (BATCH, TOKENS + 1))
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        recorder.step()


def record(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Train, and give the trace and the execution trace."""
    trace, execution_trace = folder / "trace.json", folder / "execution-trace.json"
    observer = ExecutionTraceObserver()
    observer.register_callback(str(execution_trace))
    torch.manual_seed(0)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=STEPS),
        record_shapes=True,
        profile_memory=True,
        with_stack=True,
        with_modules=True,
        execution_trace_observer=observer,
        on_trace_ready=lambda done: done.export_chrome_trace(str(trace)),
    ) as recorder:
        train(TinyTransformer(), STEPS + 1, recorder)
    observer.unregister_callback()
    return json.loads(trace.read_text()), json.loads(execution_trace.read_text())


def without_private_parts(trace: dict[str, Any]) -> dict[str, Any]:
    """The trace without what may tell about the machine and without the paths of its files."""
    text = json.dumps({key: value for key, value in trace.items() if key in KEPT})
    # "…/site-packages/torch/nn/x.py(1): f" and "…/lib/python3.11/json/x.py(1): f" keep what follows
    text = re.sub(r'"/[^"]*?/(?:site-packages|python3\.\d+|examples)/', '"', text)
    cleaned: dict[str, Any] = json.loads(text)
    return cleaned


def save(value: dict[str, Any], path: Path) -> None:
    path.write_bytes(gzip.compress(json.dumps(value, separators=(",", ":")).encode(), 9, mtime=0))
    print(f"{path}: {path.stat().st_size:,} bytes")


def main() -> None:
    torch.set_num_threads(1)
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        trace, execution_trace = record(Path(folder))
    save(without_private_parts(trace), FOLDER / "tiny-transformer-cpu.json.gz")
    save(execution_trace, FOLDER / "tiny-transformer-cpu.execution-trace.json.gz")


if __name__ == "__main__":
    main()
