"""Kernels that one launch of a command buffer (CUDA graph) runs, by hand and with known owners."""

from __future__ import annotations

from pathlib import Path

import plain_xplane as plain
import pytest
from handmade_jax import mlp
from plain_xplane import Plane

from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind, OwnerRule
from tracelens_graph.stores.cut import piece_between, write_piece
from tracelens_graph.stores.graph_file import write_graph

US = 1_000_000
"""Picoseconds in a microsecond."""


def graph_of(*instructions: str, told_by_launch: str = "", launch_us: int = 10) -> bytes:
    """A launch of a graph with a kernel for each instruction ("" for one that names none)."""
    programs, device, host = Plane("/host:metadata"), Plane("/device:GPU:0"), Plane("/host:CPU")
    programs.program(3, "jit_f(3)", mlp())
    kernels = [
        device.event(
            f"k{i}", (50 + 10 * i) * US, (i + 1) * US, correlation_id=9, cuda_graph_id=4,
            **({"hlo_op": f"&{name}", "program_id": 3} if name else {}),
        )
        for i, name in enumerate(instructions)
    ]  # fmt: skip
    device.line(7, "Stream #7", 0, *kernels)
    told = {"hlo_op": f"&{told_by_launch}", "program_id": 3} if told_by_launch else {}
    launch = host.event("cuGraphLaunch (CudaGraph:4)", 5 * US, launch_us * US, correlation_id=9, **told)
    host.line(1, "python", 0, host.event("PjitFunction(f)", 0, 40 * US), launch)
    return plain.written(programs, device, host)


def charged(core: Core) -> dict[str, tuple[str | None, str]]:
    """Kernel -> op that it is charged to, and by which rule."""
    c = core.columns
    return {
        core.names[c.name[row]]: (
            core.names[c.name[c.owner[row]]] if c.owner[row] >= 0 else None,
            OwnerRule(int(c.owner_rule[row])).name,
        )
        for row in core.gpu_rows.tolist()
    }


def test_kernels_are_charged_to_the_instructions_that_they_name() -> None:
    core = load_core(graph_of("dot.3", "fusion.4", "dot.5", "dot.3", ""))
    assert charged(core) == {
        "k0": ("dot.3", "hlo"), "k1": ("fusion.4", "hlo"), "k2": ("dot.5", "hlo"), "k3": ("dot.3", "hlo"),
        "k4": (None, "no_op"),
    }  # fmt: skip
    (dot,) = core.find(Kind.Op, "dot.3")
    assert core.gpu_sum_ns[core.row(dot.uid)] == 5_000
    assert dot.args["Input Dims"][:2] == [[4, 8], [8, 16]]


def test_parts_of_a_launch_follow_one_another_as_kernels_do() -> None:
    core = load_core(graph_of("dot.5", "dot.3", "fusion.4"))
    ops = sorted(core.find(Kind.Op), key=lambda op: op.start_ns)
    assert [op.name for op in ops] == ["dot.5", "dot.3", "fusion.4"]
    assert [(op.start_ns, op.end_ns) for op in ops] == [(5000, 8333), (8333, 11666), (11666, 15000)]
    (launch,) = core.find(Kind.RuntimeCall, "cuGraphLaunch (CudaGraph:4)")
    assert core.gpu_sum_ns[core.row(launch.uid)] == 6_000


def test_scopes_hold_kernels_of_graphs() -> None:
    core = load_core(graph_of("dot.3", "fusion.4", "dot.5"))
    (module,) = core.find(Kind.Module)
    assert (module.name, core.gpu_sum_ns[core.row(module.uid)]) == ("mlp", 3_000)


def test_kernels_that_name_what_was_launched_belong_to_that() -> None:
    core = load_core(graph_of("dot.3", "dot.3"))
    assert charged(core) == {"k0": ("dot.3", "nearest_op"), "k1": ("dot.3", "nearest_op")}


def test_a_launch_that_names_itself_stands_around_its_instructions() -> None:
    core = load_core(graph_of("dot.3", "fusion.4", "", told_by_launch="dot.5"))
    assert charged(core) == {"k0": ("dot.3", "hlo"), "k1": ("fusion.4", "hlo"), "k2": ("dot.5", "nearest_op")}
    (outer,) = core.find(Kind.Op, "dot.5")
    assert core.gpu_sum_ns[core.row(outer.uid)] == 6_000


@pytest.mark.parametrize("keep", ["saved", "cut"])
def test_owners_stay_where_a_graph_is_kept(keep: str, tmp_path: Path) -> None:
    core = load_core(graph_of("dot.3", "fusion.4", ""))
    if keep == "saved":
        write_graph(core, tmp_path / "saved.tlg")
        again = load_core(tmp_path / "saved.tlg")
        assert again.equals(core)
    else:
        with (tmp_path / "cut.json").open("wb") as file:
            write_piece(piece_between(core, 0, 10**9), file, packed=False)
        again = load_core(tmp_path / "cut.json")
    assert {name: op for name, (op, _) in charged(again).items()} == {"k0": "dot.3", "k1": "fusion.4", "k2": None}


def test_the_id_in_the_file_stays_among_the_arguments() -> None:
    core = load_core(graph_of("dot.3", "fusion.4", ""))
    told = [core.nodes_at([row])[0].args for row in core.gpu_rows.tolist()]
    ids = {args.get("hlo_op", ""): (args["correlation"], args.get("correlation_id")) for args in told}
    assert ids == {"dot.3": (10, 9), "fusion.4": (11, 9), "": (9, None)}
