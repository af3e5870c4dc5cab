"""The kernels of a JAX profile with the instructions that launched them: what all of TraceLens's tables are made of.

TraceLens shows every kernel as its own launcher. Copies are none of them, and fills are where they run as kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.shared.grouping import text_codes
from tracelens_graph.categories.kernels import kernel_categories
from tracelens_graph.compat.jax.instructions import Instruction, key_of
from tracelens_graph.compat.jax.rules import JAX_RULES
from tracelens_graph.graph.arguments import instructions_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import Kind


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
    rows: np.ndarray
    instructions: Sequence[Instruction]
    instruction: np.ndarray

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
    def dur_ns(self) -> np.ndarray:
        """Their durations."""
        found: np.ndarray = self.core.columns.dur_ns[self.rows]
        return found

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
    def operands(self) -> np.ndarray:
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

    def take(self, places: np.ndarray) -> Kernels:
        """Some of them."""
        return Kernels(self.window, self.rows[places], self.instructions, self.instruction[places])


def pids(core: Core, rows: np.ndarray) -> np.ndarray:
    """Numbers of the GPUs of some events, from 1 on."""
    found: np.ndarray = core.columns.device[rows].astype(np.int64) + 1
    return found


def _kernels(w: Window) -> Kernels:
    core, c = w.core, w.core.columns
    rows = w.gpu_rows
    fills = rows[c.kind[rows] == Kind.Memset].tolist()
    # What is called a memset runs on the copy engine, or tells no more of itself; other fills are kernels.
    engine = {row for row in fills if core.names[c.name[row]].lower().startswith("memset")}
    is_kernel = (c.kind[rows] == Kind.Kernel) | (c.kind[rows] == Kind.Memset)
    is_kernel &= ~np.isin(rows, list(engine))
    rows = rows[is_kernel]
    rows = rows[np.argsort(c.uid[rows], kind="stable")]
    owner = c.owner[rows]
    has = np.flatnonzero((owner >= 0) & (c.argset[np.maximum(owner, 0)] >= 0))
    told = np.stack((c.name[owner[has]], c.argset[owner[has]]), axis=1)
    found, first, of = np.unique(told, axis=0, return_index=True, return_inverse=True)
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
