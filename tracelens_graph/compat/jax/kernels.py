"""The kernels of a JAX profile with the instructions that launched them: what all of TraceLens's tables are made of.

TraceLens shows every kernel as its own launcher. Copies are none of them, and fills are where they run as kernels. What
it shows of an instruction comes from the argument set of its op.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from tracelens_graph.analyses.shared.grouping import Cells, Groups, text_codes
from tracelens_graph.categories.kernels import kernel_categories
from tracelens_graph.compat.jax.rules import JAX_RULES
from tracelens_graph.graph.arguments import instructions_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window
from tracelens_graph.hlo.facts import Facts
from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import CannotModel
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Codes, Ns, Rows

STATISTICS = ("mean", "median", "std", "min", "max", "sum")

NOT_KNOWN = "NA"
"""What TraceLens writes for what it does not know of an instruction."""

_MOST_BYTES = 1 << 62

_ARRAY = re.compile(r"(\w+)\[([\d,]*)\]")


@dataclass(frozen=True)
class Instruction:
    """An instruction as its kernels name it.

    Attributes:
        name: such as `cudnn-conv.1`; "" for kernels of none.
        argset: its argument set; empty texts for kernels of none.
        facts: what else is known of it; None for kernels of none.
        op_name: where it comes from in the Python program; "" if that is not known.
    """

    name: str = ""
    argset: tuple[str, str, str, str] = ("", "", "", "")
    facts: Facts | None = None
    op_name: str = ""

    @cached_property
    def arguments(self) -> Arguments:
        """Its argument set, as models read it."""
        return Arguments(*self.argset, self.facts)

    @property
    def does(self) -> str:
        """The name by which the table of ops knows it."""
        return self.facts.table_name if self.facts else ""

    @property
    def target(self) -> str:
        """What a custom call calls; "" for anything else."""
        return self.facts.target if self.facts else ""

    @cached_property
    def _operands(self) -> list[tuple[str, list[int], list[int]]]:
        """Type, sizes and strides of its operands."""
        dims, types, strides, _ = self.arguments.parts
        both = zip(types, dims, strides, strict=False)
        return [
            (str(one), sizes, steps)
            for one, sizes, steps in both
            if one and isinstance(sizes, list) and isinstance(steps, list) and len(sizes) == len(steps)
        ]

    @property
    def types(self) -> list[str]:
        """Types of the operands."""
        return [one for one, _, _ in self._operands]

    @property
    def dims(self) -> list[list[int]]:
        """Sizes of the operands."""
        return [sizes for _, sizes, _ in self._operands]

    @property
    def strides(self) -> list[list[int]]:
        """Strides of the operands, in elements."""
        return [steps for _, _, steps in self._operands]

    @cached_property
    def operands(self) -> list[str]:
        """The operands as HLO writes them: `bf16[32,128]{1,0}`."""
        return [written(*one) for one in self._operands]

    @property
    def result(self) -> str:
        """Its result as HLO writes it; of a tuple all parts."""
        return self.facts.result if self.facts else ""

    @cached_property
    def results(self) -> list[tuple[str, list[int]]]:
        """Type and sizes of the parts of its result."""
        return arrays(self.result)

    @cached_property
    def input_bytes(self) -> int | None:
        """Bytes of all operands; None where the size of a type is not known, or the program is damaged."""
        try:
            tensors = [self.arguments.optional(at) for at in range(len(self.arguments))]
            found = sum(-(-prod(one.shape) * one.type.bits // 8) for one in tensors if one is not None)
        except CannotModel:
            return None
        return found if found < _MOST_BYTES else None

    def details(self) -> dict[str, Any]:
        """What stands in the details of its kernels, as TraceLens spells it."""
        return {
            "custom_call_target": f'custom_call_target="{self.target}"' if self.target else NOT_KNOWN,
            "operands": self.operands if self.facts else NOT_KNOWN,
            "outputs": self.result or NOT_KNOWN,
            "metadata": self.op_name or NOT_KNOWN,
        }


def written(type_: str, dims: Sequence[int], strides: Sequence[int]) -> str:
    """An array as HLO writes it. Where dimensions of one element leave their order open, it is row by row."""
    order = sorted(range(len(dims)), key=lambda at: (strides[at], dims[at] != 1, -at))
    layout = f"{{{','.join(map(str, order))}}}" if order else ""
    return f"{type_}[{','.join(map(str, dims))}]{layout}"


def arrays(text: str) -> list[tuple[str, list[int]]]:
    """Type and sizes of the arrays in a text of HLO."""
    return [(one, [int(size) for size in sizes.split(",") if size]) for one, sizes in _ARRAY.findall(text)]


def key_of(one: Instruction) -> str:
    """A text that is equal for instructions with the same operands."""
    return json.dumps([one.types, one.dims, one.strides])


@dataclass(frozen=True)
class Kernels:
    """Kernels in the order of the file.

    Attributes:
        window: the window they are in.
        rows: their rows.
        instructions: different instructions; the first stands for none.
        instruction: position in it of that of each kernel.
    """

    window: Window
    rows: Rows
    instructions: Sequence[Instruction]
    instruction: Codes

    @staticmethod
    def of(w: Window) -> Kernels:
        """The kernels of a window."""
        return w.once(_kernels)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def core(self) -> Core:
        """The graph."""
        return self.window.core

    @cached_property
    def dur_ns(self) -> Ns:
        """Their durations."""
        return self.core.columns.dur_ns[self.rows]

    @cached_property
    def names(self) -> list[str]:
        """Their names."""
        return [self.core.names[code] for code in self.core.columns.name[self.rows].tolist()]

    @cached_property
    def categories(self) -> list[str]:
        """TraceLens's categories of them."""
        ops = [f"{one.name} {one.does}" for one in self.instructions]
        codes = self.core.columns.name[self.rows].astype(np.int64)
        pairs, of = np.unique(np.stack((codes, self.instruction), axis=1), axis=0, return_inverse=True)
        known = kernel_categories([(self.core.names[name], ops[at]) for name, at in pairs.tolist()], JAX_RULES)
        return [known[at] for at in of.reshape(-1).tolist()]

    @cached_property
    def operands(self) -> Codes:
        """For each a number that is equal for equal operands."""
        return text_codes([key_of(one) for one in self.instructions])[self.instruction]

    @cached_property
    def latency_us(self) -> np.ndarray:
        """From the start of the launch to that of the kernel; NaN where the launch is not in the profile."""
        c = self.core.columns
        parent = c.parent[self.rows]
        latency = (c.start_ns[self.rows] - c.start_ns[np.maximum(parent, 0)]) / 1e3
        return np.where(parent >= 0, latency, np.nan)

    @cached_property
    def pids(self) -> np.ndarray:
        """Numbers of their GPUs as XProf gives them: from 1 on."""
        return pids(self.core, self.rows)

    @property
    def gpus(self) -> int:
        """Number of GPUs that they run on."""
        return len(np.unique(self.pids))

    def take(self, places: Rows) -> Kernels:
        """Some of them."""
        return Kernels(self.window, self.rows[places], self.instructions, self.instruction[places])


def pids(core: Core, rows: Rows) -> np.ndarray:
    """Numbers of the GPUs of some events, from 1 on."""
    return core.columns.device[rows].astype(np.int64) + 1


def _kernels(w: Window) -> Kernels:
    core, c = w.core, w.core.columns
    rows = w.gpu_rows
    fills = rows[c.kind[rows] == Kind.Memset].tolist()
    # What is called a memset runs on the copy engine, or shows no more of itself; other fills are kernels.
    engine = {row for row in fills if core.names[c.name[row]].lower().startswith("memset")}
    is_kernel = (c.kind[rows] == Kind.Kernel) | (c.kind[rows] == Kind.Memset)
    is_kernel &= ~np.isin(rows, list(engine))
    rows = rows[is_kernel]
    rows = rows[np.argsort(c.uid[rows], kind="stable")]
    owner = c.owner[rows]
    has = np.flatnonzero((owner >= 0) & (c.argset[np.maximum(owner, 0)] >= 0))
    pairs = np.stack((c.name[owner[has]], c.argset[owner[has]]), axis=1)
    found, first, of = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    instruction = np.zeros(len(rows), np.int64)
    instruction[has] = of.reshape(-1) + 1
    events = core.details.events(c.uid[owner[has[first]]].tolist())
    uids = c.uid[owner[has[first]]].tolist()
    origins = [str(events.get(uid, {}).get("args", {}).get("op_name", "")) for uid in uids]
    facts = instructions_of(core)
    instructions = [
        Instruction(core.names[name], core.argsets[argset], facts.get(argset), origin)
        for (name, argset), origin in zip(found.tolist(), origins, strict=True)
    ]
    return Kernels(w, rows, [Instruction(), *instructions], instruction)


def details(names: Cells, time: Groups, more: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What groups of kernels took: name, further facts, count and statistics of each group."""
    figures: dict[str, np.ndarray] = {
        "total_duration_us": time.sum,
        "mean_duration_us": time.mean,
        "median_duration_us": time.median,
        "std_dev_duration_us": time.std(ddof=0),
        "min_duration_us": time.min,
        "max_duration_us": time.max,
    }
    counts = time.count.tolist()
    values = zip(*((figure / 1e3).tolist() for figure in figures.values()), strict=True)
    return [
        {"name": name, **facts, "count": count, **dict(zip(figures, row, strict=True))}
        for name, facts, count, row in zip(names, more, counts, values, strict=True)
    ]
