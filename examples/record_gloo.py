"""Record a tiny job of several ranks that communicate over gloo on the CPU, one of them slow to load its data.

    pip install torch
    torchrun --nproc-per-node 2 examples/record_gloo.py
    torchrun --nproc-per-node 4 examples/record_gloo.py

writes examples/traces/gloo-2-ranks/rank0.json.gz and so on: one trace of the profiler for each rank. In every step the
last rank sleeps while it loads a batch, so that all others wait for it in the first collective, the all-reduce of the
loss. Then follow the gradients, each kind of collective that gloo has in the group of all ranks, and two collectives in
a group of two.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from record_cpu import FOLDER, save, without_private_parts
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Dataset

WIDTH, BATCH, STEPS = 256, 8, 3
LATE_S = 0.02
"""How long the last rank sleeps in every step."""


class Batches(Dataset[Tensor]):
    """Random samples, the first of each batch late on one rank."""

    def __init__(self, is_late: bool) -> None:
        self.is_late = is_late

    def __len__(self) -> int:
        return BATCH * (STEPS + 1)

    def __getitem__(self, index: int) -> Tensor:
        if self.is_late and index % BATCH == 0:
            time.sleep(LATE_S)
        return torch.rand(WIDTH)


def communicate(rank: int, ranks: int, pair: dist.ProcessGroup) -> None:
    """Each kind of collective once; sizes differ, so that none can be taken for another, also not of another pair."""
    of_pair = rank // 2
    part, whole = torch.rand(1_000), torch.empty(1_000 * ranks)
    dist.all_gather_into_tensor(whole, part)
    dist.reduce_scatter_tensor(torch.empty(1_100), torch.rand(1_100 * ranks))
    dist.broadcast(torch.rand(1_200), src=0)
    dist.reduce(torch.rand(1_300), dst=0)
    dist.all_to_all_single(torch.empty(1_400 * ranks), torch.rand(1_400 * ranks))
    # Rank r sends r + 1 rows to everybody.
    rows = torch.rand((rank + 1) * ranks, 155)
    dist.all_to_all_single(torch.empty(sum(range(1, ranks + 1)), 155), rows, [*range(1, ranks + 1)], [rank + 1] * ranks)
    tensor = torch.rand(1_600 + of_pair)
    if rank % 2 == 0:
        dist.send(tensor, rank + 1)
    else:
        dist.recv(tensor, rank - 1)
    dist.all_reduce(torch.rand(1_700 + of_pair), group=pair)
    dist.broadcast(torch.rand(1_800 + of_pair), src=2 * of_pair, group=pair)
    dist.barrier()


def train(recorder: profile) -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    pairs = [dist.new_group([first, first + 1]) for first in range(0, ranks, 2)]
    torch.manual_seed(rank)
    model = nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in DataLoader(Batches(rank == ranks - 1), BATCH):
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        dist.all_reduce(loss.detach())
        for weight in model.parameters():
            dist.all_reduce(weight.grad, op=dist.ReduceOp.SUM)
        optimizer.step()
        communicate(rank, ranks, pairs[rank // 2])
        recorder.step()


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        with profile(
            activities=[ProfilerActivity.CPU],
            schedule=schedule(wait=0, warmup=1, active=STEPS),
            record_shapes=True,
            with_stack=True,
            on_trace_ready=lambda done: done.export_chrome_trace(str(trace)),
        ) as recorder:
            train(recorder)
        recorded: dict[str, Any] = json.loads(trace.read_text())
    target = FOLDER / f"gloo-{ranks}-ranks"
    target.mkdir(parents=True, exist_ok=True)
    save(without_private_parts(recorded), target / f"rank{rank}.json.gz")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
