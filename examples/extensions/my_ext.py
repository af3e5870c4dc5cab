"""What an extension can add to a report: tracelens-graph report TRACE --extension examples/extensions/my_ext.py

Each part of `extension`, at the end, works without the others.
"""

from __future__ import annotations

import re

from tracelens_graph import Column, Extension, Table
from tracelens_graph.categories import KernelRule, OpRules, Rule
from tracelens_graph.graph import Core, Window, renamed
from tracelens_graph.perf import (
    Architecture,
    Arguments,
    CallContext,
    CannotModel,
    Cost,
    OpModel,
    Roof,
    TimeModel,
    Work,
    roofline,
)
from tracelens_graph.schema import Kind

op_rules = OpRules(
    names={"aten::_log_softmax": "loss", "aten::_log_softmax_backward_data": "loss"},
    by_name=(Rule(re.compile("aten::nll_loss"), "loss"), Rule(re.compile("aten::_foreach_"), "optimizer")),
)

kernel_rules = (
    KernelRule("GEMM of gradients", pattern=r"gemm.*_nt_n", op="aten::mm"),
    KernelRule("GEMM of gradients", pattern=r"gemm.*_nn_n", op="aten::mm"),
)


def arange(arguments: Arguments, context: CallContext) -> Cost:
    """`aten::arange(end)` writes `end` whole numbers of 8 bytes, and computes each by one multiply-add."""
    end = arguments.integer(0)
    if end is None:
        raise CannotModel("its end is not recorded")
    return Cost(flops=2 * end, bytes=8 * end, unit="vector", params={"end": end})


def with_launch(work: Work, arch: Architecture | None) -> float | None:
    """Time at 80 % of the roof, and 2 us for filling and draining the device. A simulator would stand here."""
    roof = roofline(work.cost, arch) if arch else None
    return roof.time_us / 0.8 + 2 if isinstance(roof, Roof) else None


def longest_kernels(w: Window) -> Table:
    """The five longest kernels of the window."""
    core, c = w.core, w.core.columns
    kernels = w.rows_of_kind(Kind.Kernel)
    longest = kernels[(-c.dur_ns[kernels]).argsort(kind="stable")[:5]]
    cells = {
        "kernel": [core.names[code] for code in c.name[longest].tolist()],
        "us": c.dur_ns[longest] / 1e3,
        "uid": c.uid[longest],
    }
    about = {"kernel": Column("its name"), "us": Column("how long it ran", "us"), "uid": Column("its uid")}
    return Table("longest_kernels", cells, about, w.titled("Longest kernels"))


def without_tiles(core: Core) -> Core:
    """GEMM kernels that differ in tiles only get one name, so that tables show them in one row."""
    found = core.find("Kernel", pattern=r"_xmma_gemm_.*_tilesize")
    return renamed(core, {kernel.uid: kernel.name.partition("_tilesize")[0] for kernel in found})


extension = Extension(
    op_rules=op_rules,
    kernel_rules=kernel_rules,
    models={"aten::arange": OpModel(arange, "Creation_fwd")},
    time_models=(TimeModel("With launch", with_launch),),
    tables={"longest_kernels": longest_kernels},
    postprocess=without_tiles,
)
