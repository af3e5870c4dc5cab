"""Record pairs: the profiler's trace and the execution trace of one run, of small programs on the CPU.

    pip install torch
    python examples/record_pairs.py
    python examples/record_pairs.py FOLDER threads lineage

writes NAME.json.gz and NAME.execution-trace.json.gz for each program, and for `lineage` also what the program did, to
examples/traces/linked or another folder. Each program shows what makes a pair hard to join or to follow; `compiled`
needs a C++ compiler.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own convention)
from ledger import Ledger
from record_cpu import FOLDER, save, without_private_parts
from torch import Tensor, nn
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, record_function
from torch.utils.checkpoint import checkpoint

Json = dict[str, Any]
ATTEMPTS = 100
"""How often to try until the id or memory of a freed tensor comes back."""


class Pair:
    """Both recorders, and the files that they write."""

    def __init__(self, folder: Path) -> None:
        self.trace = folder / "trace.json"
        self.execution_trace = folder / "execution-trace.json"
        self.observer = ExecutionTraceObserver()
        self.observer.register_callback(str(self.execution_trace))

    def recording(self, **options: Any) -> profile:
        """The profiler, which starts and stops the observer unless told of none."""
        usual = {"record_shapes": True, "execution_trace_observer": self.observer}
        return profile(
            activities=[ProfilerActivity.CPU],
            on_trace_ready=lambda done: done.export_chrome_trace(str(self.trace)),
            **(usual | options),
        )


# -- several threads and autograd


def threads(pair: Pair) -> None:
    """Three threads train at once; the main thread goes backward through what they computed last."""
    torch.manual_seed(0)
    losses: dict[int, Tensor] = {}

    def train(number: int) -> None:
        model = nn.Sequential(nn.Linear(16, 8 + number), nn.ReLU(), nn.Linear(8 + number, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.rand(4, 16)).square().mean().backward()
            optimizer.step()
        block = nn.Sequential(nn.Linear(16, 16), nn.GELU())
        losses[number] = checkpoint(block, torch.rand(4, 16, requires_grad=True), use_reentrant=True).sum()

    workers = [threading.Thread(target=train, args=(number,)) for number in range(3)]
    with pair.recording(experimental_config=_ExperimentalConfig(profile_all_threads=True)):
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        with record_function("## backward elsewhere ##"):
            torch.stack([losses[number] for number in range(3)]).sum().backward()


# -- compiled


def compiled(pair: Pair) -> None:
    """A training step that inductor has compiled; the first, which compiles, stays outside of the recording."""
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile(options={"cpp.enable_kernel_profile": True})
    def loss_of(batch: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(model(batch), target)

    def step() -> None:
        optimizer.zero_grad()
        loss_of(torch.rand(8, 16), torch.rand(8, 4)).backward()
        optimizer.step()

    torch.manual_seed(0)
    step()
    with pair.recording():
        step()
        step()


# -- where tensors come from


def lineage(pair: Pair) -> Json:
    """Views, writes in place, lists, casts and copies, and tensors that take the place of freed ones."""
    ledger = Ledger()
    torch.manual_seed(0)
    ledger.hold(before=torch.rand(32, 16))
    with pair.recording(record_shapes=False, profile_memory=True):
        with torch.no_grad():
            views_and_writes(ledger)
            lists(ledger)
            casts_and_copies(ledger)
        with torch.inference_mode():  # elsewhere a view keeps the tensor alive that it is a view of
            again = used_again(ledger)
    return {"tensors": ledger.tensors, "steps": ledger.steps, "used_again": again}


def views_and_writes(ledger: Ledger) -> None:
    run = ledger.run
    run("aten::rand", lambda: torch.rand(64, 32), makes="a")
    run("aten::ones", lambda: torch.ones(64, 32), makes="b")
    run("aten::mul", lambda a, b: a * b, reads="a b", makes="c")
    run("aten::add_", lambda a, c: none(c.add_(a)), reads="a", writes="c")
    run("aten::view", lambda c: c.view(32, 64), reads="c", makes="c_view")
    run("aten::t", lambda c: c.t(), reads="c_view", makes="c_view_t")
    run("aten::slice", lambda c: c[1:9], reads="c", makes="c_rows")
    run("aten::mul_", lambda rows: none(rows.mul_(2)), writes="c_rows")
    run("aten::sum", lambda c: c.sum(), reads="c_view_t", makes="c_sum")
    run("aten::item", lambda one: none(one.item()), reads="c_sum")
    run("aten::matmul", lambda a, w: a @ w, reads="a before", makes="product")
    run("aten::empty", lambda: torch.empty(64, 32), makes="out")
    run("aten::add", lambda a, b, out: none(torch.add(a, b, out=out)), reads="a b", writes="out")
    run("aten::max", lambda a: a.max(dim=1), reads="a", makes="highest places")
    run("aten::expand", lambda rows: rows.expand(4, 64), reads="highest", makes="wide")
    run("aten::empty", lambda: torch.empty(0), makes="nothing")
    run("aten::empty", lambda: torch.empty(0), makes="nothing_else")
    run("aten::cat", lambda a, b: torch.cat([a, b]), reads="nothing highest", makes="joined")
    run("aten::resize_", lambda a: none(a.resize_(4096)), writes="nothing_else")
    ledger.free("c", "c_view", "c_view_t", "c_rows")


def lists(ledger: Ledger) -> None:
    run = ledger.run
    for name in ("x0", "x1", "x2"):
        run("aten::rand", lambda: torch.rand(100), makes=name)
    run("aten::_foreach_add", lambda *xs: torch._foreach_add(xs, 1.0), reads="x0 x1 x2", makes="y0 y1 y2")
    run("aten::_foreach_mul_", lambda *ys: none(torch._foreach_mul_(ys, 2.0)), writes="y0 y1 y2")
    run("aten::_foreach_copy_", lambda *all_: none(torch._foreach_copy_(all_[3:], all_[:3])),
        reads="x2 x1 x0", writes="y0 y1 y2")  # fmt: skip
    run("aten::stack", lambda *ys: torch.stack(ys), reads="y0 y1 y2", makes="table")
    run("aten::unbind", lambda table: table.unbind(), reads="table", makes="row0 row1 row2")
    run("aten::split", lambda table: table.split(40, dim=1), reads="table", makes="part0 part1 part2")
    run("aten::neg_", lambda row: none(row.neg_()), writes="row1")
    run("aten::cat", lambda *parts: torch.cat(parts, dim=1), reads="part2 part0", makes="some_parts")
    ledger.free("table", "row0", "row1", "row2", "part0", "part1", "part2", "x0", "x1", "x2", "y0", "y1", "y2")


def casts_and_copies(ledger: Ledger) -> None:
    run = ledger.run
    run("aten::to", lambda a: a.to(torch.float64), reads="a", makes="double")
    run("aten::to", lambda a: a.to(torch.bfloat16), reads="double", makes="half")
    run("aten::to", lambda a: a.to(torch.float32), reads="a", makes="a_again")
    run("aten::t", lambda a: a.t(), reads="half", makes="half_t")
    run("aten::contiguous", lambda a: a.contiguous(), reads="half_t", makes="half_packed")
    run("aten::clone", lambda a: a.clone(), reads="half_packed", makes="half_clone")
    run("aten::detach", lambda a: a.detach(), reads="half_clone", makes="half_detached")
    run("aten::to", lambda a: a.to(torch.float32), reads="half_detached", makes="single")
    run("aten::copy_", lambda a, b: none(b.copy_(a)), reads="single", writes="half_packed")
    run("aten::reshape", lambda a: a.reshape(-1), reads="half_t", makes="half_flat")
    run("aten::reshape", lambda a: a.reshape(-1), reads="single", makes="single_flat")
    ledger.free("a", "half", "half_t", "a_again", "half_clone")


def used_again(ledger: Ledger) -> list[Json]:
    """Tensors that take the id of a freed one, its memory, or both; which, from which, and what of it."""
    run = ledger.run

    def twin(n: int) -> tuple[str, str]:
        """The same operator makes the same again."""
        run("aten::rand", lambda: torch.rand(3000), makes=f"first{n}")
        run("aten::mul", lambda one: one * 2, reads=f"first{n}", makes=f"of_first{n}")
        run("aten::rand", lambda: torch.rand(3000), frees=f"first{n}", makes=f"twin{n}")
        run("aten::mul", lambda one: one * 3, reads=f"twin{n}", makes=f"of_twin{n}")
        return f"twin{n}", f"first{n}"

    def product(n: int) -> tuple[str, str]:
        """The operator uses its result before it gives it out."""
        run("aten::matmul", lambda a, b: a @ b, reads="out before", makes=f"product{n}")
        run("aten::matmul", lambda a, b: a @ b, frees=f"product{n}", reads="out before", makes=f"same_product{n}")
        run("aten::neg", lambda one: -one, reads=f"same_product{n}", makes=f"of_same_product{n}")
        return f"same_product{n}", f"product{n}"

    def smaller(n: int) -> tuple[str, str]:
        run("aten::rand", lambda: torch.rand(2000), makes=f"large{n}")
        run("aten::ones", lambda: torch.ones(10, 10), frees=f"large{n}", makes=f"small{n}")
        run("aten::sum", lambda one: one.sum(), reads=f"small{n}", makes=f"of_small{n}")
        return f"small{n}", f"large{n}"

    def usurper(n: int) -> tuple[str, str]:
        """A view still has the memory of the tensor whose id is gone."""
        run("aten::rand", lambda: torch.rand(50, 50), makes=f"base{n}")
        run("aten::view", lambda one: one.view(-1), reads=f"base{n}", makes=f"survivor{n}")
        run("aten::zeros", lambda: torch.zeros(7), frees=f"base{n}", makes=f"usurper{n}")
        run("aten::slice", lambda one: one[:7], reads=f"survivor{n}", makes=f"head{n}")
        run("aten::add", lambda one, other: one + other, reads=f"head{n} usurper{n}", makes=f"of_both{n}")
        return f"usurper{n}", f"base{n}"

    def back(n: int) -> tuple[str, str]:
        """One view after another of the same storage."""
        run("aten::slice", lambda one: one[:10], reads="out", makes=f"front{n}")
        run("aten::sum", lambda one: one.sum(), reads=f"front{n}", makes=f"of_front{n}")
        run("aten::slice", lambda one: one[10:20], reads="out", frees=f"front{n}", makes=f"back{n}")
        run("aten::sum", lambda one: one.sum(), reads=f"back{n}", makes=f"of_back{n}")
        return f"back{n}", f"front{n}"

    def copies(n: int) -> tuple[str, str]:
        """A chain of copies, each freed once it was copied: the last but one takes the place of the first."""
        chain = [f"chain{n}_{i}" for i in range(4)]
        freed = ""
        for source, copy in zip(["out", *chain], chain, strict=False):
            run("aten::clone", lambda one: one.clone(), frees=freed, reads=source, makes=copy)
            freed = source if source != "out" else ""
        return chain[2], chain[0]

    again = []
    for trial, facts in (
        (twin, ("object", "memory")),
        (product, ("object", "memory")),
        (smaller, ("object",)),
        (usurper, ("object",)),
        (back, ("object", "storage")),
        (copies, ("object",)),
    ):
        for attempt in range(ATTEMPTS):
            name, freed = trial(attempt)
            if all(ledger.tensors[name][fact] == ledger.tensors[freed][fact] for fact in facts):
                again.append({"tensor": name, "freed": freed, "facts": facts})
                break
        else:
            raise AssertionError(f"{trial.__name__}: {' and '.join(facts)} never came back in {ATTEMPTS} attempts")
    return again


def none(_: object) -> None:
    """For calls whose result is an argument: nothing was made."""


# -- one step of several


def one_step(pair: Pair) -> None:
    """Five steps of training under the profiler, of which the observer sees the third."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with pair.recording(execution_trace_observer=None):
        for number in range(5):
            if number == 2:
                pair.observer.start()
            with record_function(f"## step {number} ##"):
                optimizer.zero_grad()
                F.mse_loss(model(torch.rand(8, 16)), torch.rand(8, 4)).backward()
                optimizer.step()
            if number == 2:
                pair.observer.stop()


# -- files


def results_in(execution_trace: Json) -> dict[str, list[int]]:
    """For each range of one operator that makes one tensor, the id that the observer gave to it."""
    ranges = {node["id"]: node["name"] for node in execution_trace["nodes"] if node["name"].startswith("## ")}
    return {
        ranges[node["ctrl_deps"]]: node["outputs"]["values"][0][0]
        for node in execution_trace["nodes"]
        if node["ctrl_deps"] in ranges and "".join(node["outputs"]["types"]).startswith("Tensor(")
    }


def check_used_again(truth: Json, execution_trace: Json) -> None:
    """Ids that were to come back did so in the observer's eyes, too."""
    result = results_in(execution_trace)
    maker = {name: step["range"] for step in truth["steps"] for name in step.get("makes", ())}
    for one in truth["used_again"]:
        same_id = result[maker[one["tensor"]]] == result[maker[one["freed"]]]
        assert same_id or "object" not in one["facts"], one


PROGRAMS: dict[str, Callable[[Pair], Json | None]] = {
    "threads": threads,
    "compiled": compiled,
    "lineage": lineage,
    "one-step": one_step,
}


def main() -> None:
    torch.set_num_threads(1)
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER / "linked"
    target.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or PROGRAMS:
        with tempfile.TemporaryDirectory() as folder:
            pair = Pair(Path(folder))
            truth = PROGRAMS[name](pair)
            pair.observer.unregister_callback()
            trace, execution_trace = (json.loads(path.read_text()) for path in (pair.trace, pair.execution_trace))
        save(without_private_parts(trace), target / f"{name}.json.gz")
        save(execution_trace, target / f"{name}.execution-trace.json.gz")
        if truth:
            check_used_again(truth, execution_trace)
            save(truth, target / f"{name}.truth.json.gz")


if __name__ == "__main__":
    main()
