"""Plans of signatures, with what the trace and the performance models say of their calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from tracelens_graph.analyses.performance.unified import unified
from tracelens_graph.errors import CannotModel, CannotReplay
from tracelens_graph.frameworks import NAMESPACES
from tracelens_graph.graph.traversals import ancestors
from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import Cost
from tracelens_graph.perf.model import CallContext
from tracelens_graph.perf.registry import MODELS
from tracelens_graph.perf.roofs import least_us
from tracelens_graph.replay.calls import Surroundings, gpu_below, traced_call
from tracelens_graph.replay.collectives import RUN_AGAIN, what_helps
from tracelens_graph.replay.custom.lookup import replayers_of
from tracelens_graph.replay.custom.planning import plan_custom
from tracelens_graph.replay.instruction import InstructionPlan, plan_instruction
from tracelens_graph.replay.planning import plan_call
from tracelens_graph.replay.portable import portable
from tracelens_graph.replay.replay_plan import Recorded, ReplayPlan, Traced, Work
from tracelens_graph.replay.signatures import Signatures
from tracelens_graph.replay.triton import TRITON, is_triton, triton_plan
from tracelens_graph.schema import Kind
from tracelens_graph.utils.texts import cut_end, file_name

if TYPE_CHECKING:
    from tracelens_graph.extensions.extension import Replayer
    from tracelens_graph.graph.core import Core
    from tracelens_graph.graph.window import Window
    from tracelens_graph.perf.devices import Architecture

State = Literal["yes", "assumed", "no"]

_LONGEST_NAME = 200
"""Characters of the name of a window."""

COLLECTIVE = "collective"
AUTOGRAD = "autograd function"
CUSTOM = "custom op"
COMPILED = "compiled region"
PART = "part of a layer of experts"
ENGINE = "attention behind an engine"
RANGE = "no op of PyTorch"

_KINDS = (
    (r"^(?:c10d|_c10d_functional|symm_mem)::|^(?:nccl|gloo|mpi|ucc)[:_]|^record_param_comms$",
     COLLECTIVE, RUN_AGAIN),
    (r"^Torch-Compiled Region|^CompiledFunction|CompiledFxGraph", COMPILED,
     "record without torch.compile; its Triton kernels have programs of their own: --op /^triton_/"),
    (r"^pseudo_op::|^pseudo_mla_|^vllm::moe_forward", PART, "nothing: weights of experts are no arguments of it"),
    (r"^vllm::unified_(mla_)?attention", ENGINE, "nothing: caches and lengths of sequences are no arguments of it"),
    (r"Backward\d*$|^torch::autograd::|^autograd::engine", AUTOGRAD, "replay its forward operation"),
    (r"^\w+::", CUSTOM, "a replayer of yours in an extension"),
)  # fmt: skip
"""Names of operations without a schema, why they cannot be replayed, and what would help."""


@dataclass(frozen=True)
class Planned:
    """A plan, or why there is none, or what its program lacks.

    Attributes:
        plan: the plan.
        reason: why there is none, or none that runs as it is.
        remedy: what would help then; empty where nothing would.
    """

    plan: ReplayPlan | InstructionPlan | None
    reason: str = ""
    remedy: str = ""

    @property
    def state(self) -> State:
        """Whether there is a plan that runs as it is, and whether the trace has all its arguments."""
        if self.plan is None or self.reason:
            return "no"
        return "assumed" if self.plan.assumed else "yes"

    @property
    def why(self) -> str:
        """What is assumed, or why there is no plan that runs as it is."""
        return self.reason if self.plan is None or self.reason else "; ".join(self.plan.assumed)


def planned(core: Core, row: int, replayers: Mapping[str, Replayer] = MappingProxyType({})) -> Planned:
    """Plan the call of a row, or say why that cannot be.

    Args:
        core: the graph.
        row: row of the call.
        replayers: op name -> how a custom operation is replayed.

    Raises:
        ExtensionError: a replayer is not what it should be.
    """
    name = core.names[core.columns.name[row]]
    try:
        if core.framework.compiles_programs:
            return Planned(plan_instruction(core, row))
        if name in replayers:
            return Planned(plan_custom(traced_call(core, row), replayers[name]))
        if name.startswith(NAMESPACES):
            return Planned(plan_call(core, row))
        if is_triton(core, row):
            return Planned(triton_plan(core, row), TRITON, "-o DIR --kernel-source FILE, a file with its source")
    except CannotReplay as error:
        return Planned(None, error.reason, error.remedy)
    return next(
        (Planned(None, *why) for pattern, *why in _KINDS if re.search(pattern, name)),
        Planned(None, RANGE, "nothing: it has no schema"),
    )


class Plans:
    """Plans of some signatures, each made when it is asked for and kept.

    Attributes:
        signatures: the signatures.
    """

    def __init__(self, signatures: Signatures) -> None:
        self.signatures = signatures
        self._made: dict[int, Planned] = {}

    def first(self, number: int) -> Plans:
        """Those of the first signatures; 0 for all."""
        found = Plans(self.signatures.first(number))
        found._made = self._made
        return found

    def __getitem__(self, place: int) -> Planned:
        row = int(self.signatures.rows[place])
        if row not in self._made:
            window = self.signatures.window
            made = planned(window.core, row, replayers_of(window))
            self._made[row] = with_field(made, remedy=self._of_collectives) if made.remedy == RUN_AGAIN else made
        return self._made[row]

    @cached_property
    def _of_collectives(self) -> str:
        return what_helps(self.signatures.window)


@dataclass(frozen=True)
class Estimates:
    """What performance models say of the calls of a window.

    Attributes:
        window: the window, with the models of its extension.
        arch: the device of the roof; None where it is not known.
    """

    window: Window
    arch: Architecture | None = None

    @cached_property
    def gpu(self) -> str:
        """Name of the GPU as the trace gives it; empty where it does not, or there are different ones."""
        listed = self.window.core.info.metadata.get("deviceProperties")
        names = (
            {str(one.get("name", "")) for one in listed if isinstance(one, dict)} if isinstance(listed, list) else ()
        )
        return next(iter(names)) if len(names) == 1 else ""

    def of(self, row: int) -> Work:
        """The work of the call of a row: of an operation above it, where that has a model and does nothing else."""
        found = unified(self.window)
        code = next((code for one in self._alike(row) if (code := found.codes.get(one, -1)) >= 0), -1)
        return self.of_cost(None if code < 0 else found.costs[code])

    def of_cost(self, cost: Cost | None) -> Work:
        """The work that a model says; none of None."""
        if cost is None:
            return Work()
        flops, moved = (None if one is None else float(one) for one in (cost.flops, cost.bytes))
        return Work(flops, moved, None if self.arch is None else least_us(cost, self.arch))

    def _alike(self, row: int) -> Iterator[int]:
        """The row, then those of the operations above it that have the same GPU work."""
        yield row
        core = self.window.core
        own = len(gpu_below(core, row))
        for above in ancestors(core.columns, row) if own else ():
            if len(gpu_below(core, above)) != own:
                return
            if core.columns.kind[above] == Kind.Op:
                yield above


_MODELLED_AS = {"aten::scaled_dot_product_attention": ("aten::_scaled_dot_product_flash_attention", (0, 1, 2, 4, 5))}
"""Operations without a model -> one that does the same work, and which of their arguments it takes."""


def cost_of(op: str, recorded: Recorded, kernels: Sequence[str]) -> Cost | None:
    """What a model says of a call that no trace has; None where there is none, or it does not apply.

    Args:
        op: the operation.
        recorded: its arguments.
        kernels: the kernels that it launches, which some models go by.
    """
    parts: Iterable[Sequence[Any]] = (recorded.dims, recorded.types, recorded.strides, recorded.values)
    if op in _MODELLED_AS:
        op, taken = _MODELLED_AS[op]
        parts = [[of[at] for at in taken if at < len(of)] for of in parts]
    if op not in MODELS:
        return None
    dims, types, strides, values = map(json.dumps, parts)
    try:
        return MODELS[op].estimate(Arguments(dims, types, strides, values), CallContext(tuple(kernels)))
    except CannotModel:
        return None


def traced_at(core: Core, row: int, gpu: str = "") -> Traced:
    """What the trace says of the call of a row, as if it were the only one; `gpu` is the name of the GPU."""
    c, around = core.columns, Surroundings(core, row)
    return Traced(
        uid=int(c.uid[row]),
        kernels=tuple(around.kernels),
        children=tuple(around.children),
        kernel_us=int(core.gpu_sum_ns[row]) / 1e3,
        median_us=int(core.gpu_sum_ns[row]) / 1e3,
        gpu=gpu,
        host_us=int(c.dur_ns[row]) / 1e3,
    )


def traced(signatures: Signatures, place: int, gpu: str = "") -> Traced:
    """What the trace says of the calls of the signature at a place."""
    return replace(
        traced_at(signatures.core, int(signatures.rows[place]), gpu),
        calls=int(signatures.calls[place]),
        median_us=float(signatures.median_ns[place]) / 1e3,
        total_us=float(signatures.charged_ns[place]) / 1e3,
        percent=float(signatures.percent[place]),
        trace=trace_name(signatures.window),
    )


def trace_name(w: Window) -> str:
    """What results call a window: name of the file, and the part."""
    return cut_end(", ".join(filter(None, (file_name(w.core.info.source), w.title))), _LONGEST_NAME)


def complete(plans: Plans, place: int, estimates: Estimates) -> Planned:
    """A plan with what the trace and the models say of its calls; as it is where there is none."""
    found = plans[place]
    if found.plan is None:
        return found
    row = int(plans.signatures.rows[place])
    made = found.plan.with_traced(traced(plans.signatures, place, estimates.gpu), estimates.of(row))
    made = portable(made, plans.signatures.core) if isinstance(made, ReplayPlan) else made
    return with_field(found, plan=made)
