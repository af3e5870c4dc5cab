"""A first look: simulate a training run whose truth is known, load it, and ask where the GPU's time went.

    python examples/demo.py        (or `make demo`, which installs first)

Everything it writes goes to the folder demo/ of the working directory.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

import tracelens_graph as tlg
from tracelens_graph import Table
from tracelens_graph.graph import Node
from tracelens_graph.simulate import simulate, write

OUT = Path("demo")
RECORDING = Path(__file__).with_name("traces") / "tiny-transformer-cpu.json.gz"
CYPHER = (
    "MATCH (k:Kernel)-[:CHARGED_TO]->(o:Op) "
    "RETURN o.name AS op, count(k) AS kernels, sum(k.dur_ns) / 1e6 AS ms ORDER BY ms DESC LIMIT 5"
)
LIBRARY_FRAME = re.compile(r"torch/|<built-in ")


def main() -> None:
    headline(f"A simulated training run: two ranks, two steps, written to {OUT}/")
    run = simulate(ranks=2, steps=2, seed=7, read_loss=True)
    for path in write(run, OUT):
        print(f"  {path}  {path.stat().st_size / 1e3:,.0f} kB")

    g = tlg.load(OUT / "rank0.json.gz")
    headline("Where did the GPU's time go?")
    print(g)
    timeline = tlg.gpu_timeline(g)
    print(timeline.text(), end="")
    compare_with_truth(timeline, OUT / "rank0.truth.json")

    headline("Which module was it spent in?")
    modules = tlg.attribution(g, level="module")
    print(in_short(modules, ["name", "count", "inclusive_sum_us", "inclusive_percent"], 8).text(), end="")
    print("A module's time is that of its forward and backward pass; the optimizer works on all modules at once.")

    headline("Which single op computed longest, and which line of Python is it from?")
    show_path(slowest_op(g))

    headline("The kernels of which ops took longest? In Cypher, without a server")
    print(f"{CYPHER}\n")
    print(g.cypher(CYPHER).text(), end="")

    headline("A real recording: two training steps on a CPU")
    cpu = tlg.load(RECORDING)
    print(cpu)
    print("It has no GPU work; its ops still hang under modules and lines of Python. The longest aten::linear:")
    show_path(max(cpu.find("Op", "aten::linear"), key=lambda op: op.dur_ns))

    headline("Written")
    g.save(OUT / "rank0.tlg")
    tables = {"timeline": timeline, "modules": modules, "ops": tlg.attribution(g), "classes": g.classes()}
    for name, table in tables.items():
        table.to_pandas().to_csv(OUT / f"{name}.csv", index=False)
    print(f"  {OUT}/rank0.tlg  the graph, opens at once wherever a trace does")
    print(f"  {OUT}/{{{','.join(tables)}}}.csv  the tables, with all digits")

    command = os.path.relpath(Path(sys.executable).with_name("tracelens-graph"))
    headline(f"All of it on one screen: {command} report {OUT}/rank0.json.gz\n")
    sys.stdout.flush()
    subprocess.run([command, "report", str(OUT / "rank0.json.gz")], check=True)

    headline("On a trace of yours")
    print(f"  {command} report YOUR_TRACE.json.gz")
    print("  README.md and docs/ say what else there is")


def headline(text: str) -> None:
    print(f"\n== {text}")


def compare_with_truth(timeline: Table, truth: Path) -> None:
    """Say whether every time of the timeline is the simulator's, to the nanosecond."""
    known = json.loads(truth.read_text())["timeline"]
    found = {row["type"].removesuffix("_time"): round(1e6 * row["time ms"]) for row in timeline.records()}
    wrong = {name: (found.get(name), ns) for name, ns in known.items() if found.get(name) != ns}
    if wrong:
        raise SystemExit(f"the timeline differs from the simulator's truth (found, true; ns): {wrong}")
    print(f"All {len(known)} times equal the simulator's truth ({truth}) to the nanosecond.")


def in_short(table: Table, columns: list[str], count: int) -> Table:
    """Some columns of the first rows, and of the rows in brackets: time that no name is charged with."""
    rows = [row for row, name in enumerate(table["name"]) if row < count or name.startswith("(")]
    return Table(table.name, {name: table[name] for name in columns}, table.about, table.title).take(np.array(rows))


def slowest_op(g: tlg.TraceGraph) -> Node:
    """The op of PyTorch that most GPU time is charged to; collectives wait for other ranks as well."""
    owners = {kernel.owner for kernel in g.find("gpu")} - {None}
    return max((op for op in owners if op.name.startswith("aten::")), key=lambda op: sum(charged(op)))


def charged(op: Node) -> list[int]:
    return [kernel.dur_ns for kernel in op.kernels if kernel.owner == op]


def show_path(op: Node) -> None:
    """An op and what it was called from, the nearest first; from a backward op on by way of its forward op."""
    gpu = f", {sum(charged(op)) / 1000:,.1f} us on the GPU" if charged(op) else ""
    print(f"  {op.name}  (uid {op.uid}, {op.dur_ns / 1000:,.1f} us on the host{gpu})")
    path = [(node, "from") for node in op.ancestors]
    forward = next((node.forward[0] for node in [op, *op.ancestors] if node.forward), None)
    if forward is not None:
        path += [(forward, "backward of"), *((node, "from") for node in forward.ancestors)]
    for node, how in path:
        if not LIBRARY_FRAME.match(node.name):
            print(f"    {how} {node.name}")
    print("  (frames inside PyTorch are left out)")


if __name__ == "__main__":
    main()
