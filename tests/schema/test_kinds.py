"""A new kind of node is declared in the schema, in one of its sets; nothing else has to know of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tracelens_graph.schema import DEVICE_KINDS, FOREST_KINDS, GPU_KINDS, HOST_KINDS, KIND_MEANING, LAYER_KINDS, Kind

PROGRAM = r"""
import importlib.util, json, pathlib, sys

def patched(source, *changes):
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source

spec = importlib.util.find_spec("tracelens_graph.schema")
source = patched(
    pathlib.Path(spec.origin).read_text(),
    ("    MemoryEvent = 12\n", "    MemoryEvent = 12\n    HostThing = 13\n    GpuThing = 14\n    LayerThing = 15\n"),
    ("Kind.RuntimeCall: 2}", "Kind.RuntimeCall: 2, Kind.HostThing: 1}"),
    ("GPU_KINDS = (Kind.Kernel,", "GPU_KINDS = (Kind.GpuThing, Kind.Kernel,"),
    ("KIND_MEANING = {", "KIND_MEANING = {Kind.HostThing: 'h', Kind.GpuThing: 'g', Kind.LayerThing: 'l',"),
)
module = importlib.util.module_from_spec(spec)
sys.modules["tracelens_graph.schema"] = module
exec(compile(source, spec.origin, "exec"), module.__dict__)

from tracelens_graph.loaders.kineto.records import CATEGORIES, Family

CATEGORIES["host_thing"] = (Family.op, module.Kind.HostThing)
CATEGORIES["gpu_thing"] = (Family.gpu, module.Kind.GpuThing)
CATEGORIES["layer_thing"] = (Family.overhead, module.Kind.LayerThing)

import tracelens_graph as tlg
from tracelens_graph.db.database import Placement, image

def event(cat, name, ts, dur, pid=1, tid=1, **args):
    args = {key.replace("_", " "): value for key, value in args.items()}
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": pid, "tid": tid, "args": args}

events = [
    event("host_thing", "outer", 0, 100),
    event("cpu_op", "aten::mm", 0, 100, External_id=1),
    event("host_thing", "inner", 5, 50),
    event("cuda_runtime", "cudaLaunchKernel", 10, 5, correlation=1),
    event("gpu_thing", "mover", 20, 30, 0, 7, device=0, stream=7, correlation=1),
    event("layer_thing", "beside", 0, 3),
]
g = tlg.load({"traceEvents": events})
path = sys.argv[1]
g.save(path)
again = tlg.load(path)
print(json.dumps({
    "parents": {n.name: n.parent.name if n.parent else None for n in map(g.node, range(6))},
    "owner": g.node(4).owner.name,
    "host": sorted(n.name for n in g.find("host")),
    "gpu": [n.name for n in g.find("gpu")],
    "roots": [n.name for n in g.roots()],
    "gpu_sum": g.node(0).gpu_time.sum,
    "busy_ms": dict(zip(*(tlg.gpu_timeline(g)[c] for c in ("type", "time ms"))))["busy_time"],
    "edges": sorted({key for _, _, key in g.edges(keys=True)}),
    "kinds": sorted({data["kind"] for _, data in g.nodes(data=True)}),
    "again": [n.kind.name for n in map(again.node, range(6))] == [n.kind.name for n in map(g.node, range(6))],
    "labels": sorted({label for nodes in image(g, Placement("run", "trace")).nodes for label in nodes.labels}),
}))
"""


def test_sets_of_kinds_partition_them() -> None:
    assert sorted((*HOST_KINDS, *GPU_KINDS, *LAYER_KINDS)) == sorted(Kind)
    assert set(FOREST_KINDS) == {*HOST_KINDS, *GPU_KINDS}
    assert set(GPU_KINDS) < set(DEVICE_KINDS)
    assert set(KIND_MEANING) == set(Kind)


def test_a_new_kind_is_declared_in_one_place(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "g.tlg")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["parents"] == {
        "outer": None, "aten::mm": "outer", "inner": "aten::mm", "cudaLaunchKernel": "inner",
        "mover": "cudaLaunchKernel", "beside": None,
    }  # fmt: skip
    assert told["owner"] == "aten::mm"
    assert told["host"] == ["aten::mm", "cudaLaunchKernel", "inner", "outer"]
    assert told["gpu"] == ["mover"]
    assert told["roots"] == ["outer"]
    assert told["gpu_sum"] == 30_000
    assert told["busy_ms"] == 0.03
    assert {"CALLS", "LAUNCHES", "CHARGED_TO"} <= set(told["edges"])
    assert {"HostThing", "GpuThing", "LayerThing"} <= set(told["kinds"])
    assert told["again"]
    assert {"HostThing", "GpuThing", "LayerThing"} <= set(told["labels"])
