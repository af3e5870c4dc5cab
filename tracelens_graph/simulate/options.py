"""What to simulate: every setting, the planted problems, and the kinds of collectives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from tracelens_graph.utils.suggest import hint

Waiting = Literal["all", "source", "target", "partners", "pair"]
"""Whose arrival the end of a rank's kernel needs: everybody's; the source's; everybody's on the target and nobody's
elsewhere; that of all ranks that it exchanges data with; or that of the other end of a transfer."""
BUFFER_BYTES = 4 << 20
"""A sender of no more than this leaves without waiting for its receiver: NCCL's buffer takes the message."""


@dataclass(frozen=True)
class Kind:
    """One kind of collective.

    `name` is PyTorch's, as in `Collective name`; `label` that of the annotation around the launch; `kernel`
    belongs to `ncclDevKernel_`, with `{}` for the type. `wire` gives the bytes that a rank's link carries, from
    the size of the group and the bytes that the rank puts in and gets out.
    """

    name: str
    op: str
    label: str
    kernel: str
    waiting: Waiting
    wire: Callable[[int, int, int], float]

    @property
    def is_barrier(self) -> bool:
        """Whether no rank leaves before all have come, and all leave together."""
        return self.waiting == "all"

    @property
    def is_transfer(self) -> bool:
        """Whether it goes from one rank to one other."""
        return self.waiting == "pair"


def _sent(n: int, put: int, got: int) -> float:
    return put


def _got(n: int, put: int, got: int) -> float:
    return got


def _larger(n: int, put: int, got: int) -> float:
    return max(put, got)


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "allreduce",
            "c10d::allreduce_",
            "nccl:all_reduce",
            "AllReduce_Sum_{}_RING_LL",
            "all",
            lambda n, put, got: 2 * (n - 1) / n * put,
        ),
        Kind("_allgather_base", "c10d::_allgather_base_", "nccl:_all_gather_base", "AllGather_RING_LL", "all", _got),
        Kind(
            "_reduce_scatter_base",
            "c10d::_reduce_scatter_base_",
            "nccl:_reduce_scatter_base",
            "ReduceScatter_Sum_{}_RING_LL",
            "all",
            _sent,
        ),
        Kind("barrier", "c10d::barrier", "nccl:all_reduce_barrier", "AllReduce_Sum_{}_RING_LL", "all", _sent),
        Kind("broadcast", "c10d::broadcast_", "nccl:broadcast", "Broadcast_RING_LL", "source", _larger),
        Kind("scatter", "c10d::scatter_", "nccl:scatter", "SendRecv", "source", _larger),
        Kind("reduce", "c10d::reduce_", "nccl:reduce", "Reduce_Sum_{}_RING_LL", "target", _larger),
        Kind("gather", "c10d::gather_", "nccl:gather", "SendRecv", "target", _larger),
        Kind("all_to_all", "c10d::alltoall_base_", "nccl:all_to_all", "SendRecv", "partners", _larger),
        Kind("all_to_allv", "c10d::alltoall_base_", "nccl:all_to_all", "SendRecv", "partners", _larger),
        Kind("send", "c10d::send", "nccl:send {}->{}", "SendRecv", "pair", _sent),
        Kind("recv", "c10d::recv_", "nccl:recv {}<-{}", "SendRecv", "pair", _got),
    )
}
"""By PyTorch's name."""
CALLED_ALONE = tuple(name for name in KINDS if name != "recv")
"""Those that a program can call on all ranks; `send` stands for a ring of transfers."""


def awaited_ranks(
    kind: Kind, rank: int, ranks: tuple[int, ...], root: int | None, exchanged: tuple[int, ...], put_bytes: int
) -> tuple[int, ...] | None:
    """The ranks whose arrival the end of a rank's kernel needs, itself among them; None for all of the collective.

    `root` is the source or target, `exchanged` how much goes to and comes from each of `ranks`.
    """
    if kind.waiting == "all":
        return None
    if kind.waiting == "partners":
        return tuple(one for one, size in zip(ranks, exchanged, strict=True) if size or one == rank)
    if kind.waiting == "target":
        return None if rank == root else (rank,)
    if kind.waiting == "source":
        assert root is not None
        return (rank,) if rank == root else (rank, root)
    return (rank,) if kind.name == "send" and put_bytes <= BUFFER_BYTES else None


Recompute = Literal["none", "non_reentrant", "reentrant"]
Program = Literal["training", "loop"]
CollectiveArgs = Literal["all", "without_sequence", "none"]
LateReason = Literal["data_loader", "python", "op", "allocation"]
PerClock = float | Sequence[float] | Callable[[int], float]
"""One number that is multiplied with the number of the clock, or a number for each clock."""
Names = tuple[str, ...]
Numbers = tuple[int, ...]
Sizes = tuple[float, ...]
Places = tuple[tuple[int, int], ...]
"""Pairs of a rank and the place of a collective among those that the rank launches, from 0 on."""


def check(options: Any, at_least_one: Iterable[str]) -> None:
    """Check what all simulators ask of their settings.

    Raises:
        ValueError: one of some numbers is below 1, heads do not divide the width, or a setting is none of its words.
    """
    for name in at_least_one:
        if getattr(options, name) < 1:
            raise ValueError(f"{name} must be at least 1, not {getattr(options, name)}")
    if options.width % options.heads:
        raise ValueError(f"width {options.width} is not a multiple of heads {options.heads}")
    for name, kind in get_type_hints(type(options)).items():
        known = get_args(kind) if get_origin(kind) is Literal else ()
        if known and getattr(options, name) not in known:
            raise ValueError(f"{name} is {', '.join(known[:-1])} or {known[-1]}, not {getattr(options, name)!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings of one simulated job.

    Times end in `_us` (microseconds), sizes in `_mb` (megabytes). Sequences become tuples, and functions of a
    clock the tuple of their values, so that the settings of a run can be written as JSON. Settings that `repr`
    leaves out came later: the ids of older runs depend on that text. Raises ValueError for a value that makes no
    sense.
    """

    ranks: int = 1
    steps: int = 3
    layers: int = 2
    seed: int = 0

    batch: int = 8
    tokens: int = 512
    width: int = 1024
    heads: int = 16
    vocabulary: int = 16384

    recompute: Recompute = "none"
    """Activation checkpointing of every layer, in either of PyTorch's two ways."""
    python_stacks: bool = True
    """Write python_function events; without them no module is known."""
    shapes: bool = True
    """Write Input Dims, Input type, Input Strides and Concrete Inputs."""
    memory: bool = True
    """Write [memory] instants."""
    reuse_ids: bool = False
    """Use ids of tensors and storages again in the execution trace, as PyTorch does with addresses once memory is free.
    Otherwise all ids differ."""
    cuda_sync: bool = False
    """Write cuda_sync events."""
    unlaunched: int = 0
    """GPU events whose launch lies before the recording, per rank."""
    clock_offset_us: PerClock = 0.0
    """How far clocks are ahead when the recording starts: clock c by c times this, or by the c-th of several
    numbers. Every rank has a clock of its own, or every node where there are `nodes`."""

    dataloader_us: float = 60.0
    """How long each step waits for its batch."""
    dataloader_rank: int | None = None
    """Only this rank waits `dataloader_us`; the others wait 60."""
    copy_mb: float = 0.0
    """Extra data copied from host to device in each step."""
    pageable: bool = False
    """Copy from pageable memory: the call waits for the copy."""
    sync_every_step: bool = False
    """Read the loss after the forward pass and wait for the device after the backward pass."""
    read_loss: bool = False
    """Read the loss at the end of each step, as most training loops do: the host is never more than a step ahead."""
    tiny_kernels: int = 0
    """One-element kernels launched one by one in each step."""
    python_overhead_us: float = 0.0
    """Python time spent in each module call before its first operator."""
    bus_gb_per_s: float = 180.0
    """Bandwidth of collectives, in 10^9 bytes per second."""

    program: Program = field(default="training", repr=False)
    """Train the transformer, or run a loop of one matrix product and one all-reduce per layer: few events, for
    jobs of many ranks."""
    step_collectives: Names = field(default=(), repr=False)
    """Kinds of collectives that every step calls at its end, on all ranks, one after the other."""
    collective_mb: Sizes = field(default=(1.0,), repr=False)
    """Message sizes of `step_collectives`: each kind is called once for each size."""
    host_barrier: bool = field(default=False, repr=False)
    """Every step ends with a barrier that the host waits for."""

    tensor_parallel: int = field(default=1, repr=False)
    """Ranks that share the matrices of each layer, with an all-reduce behind attention and perceptron."""
    pipeline_parallel: int = field(default=1, repr=False)
    """Stages that the layers are divided among; activations and gradients go from stage to stage."""
    micro_batches: int = field(default=4, repr=False)
    """Parts of a batch that go through the stages of a pipeline one by one."""
    expert_parallel: int = field(default=1, repr=False)
    """Ranks that each keep one expert of every layer; tokens go to their experts and back."""
    expert_skew: float = field(default=0.5, repr=False)
    """How unevenly tokens are spread over experts: 0 not at all, 1 up to twice the even share and down to none."""
    repeat_group_names: bool = field(default=False, repr=False)
    """Groups of one purpose have one name on all ranks, though their ranks differ; else names are unique."""

    nodes: int | None = field(default=None, repr=False)
    """Hosts that the ranks are spread over in equal blocks. The ranks of a host share its clock."""
    network_gb_per_s: float | None = field(default=None, repr=False)
    """Bandwidth of collectives between hosts; as within a host where not given."""
    clock_drift_ppm: PerClock = field(default=0.0, repr=False)
    """How much faster clocks go, in millionths; numbered like `clock_offset_us`."""
    end_noise_us: float = field(default=0.0, repr=False)
    """Each rank leaves a collective up to this much later than it could."""
    odd_share: float = field(default=0.0, repr=False)
    """Share of the all-reduces, all-gathers, reduce-scatters and barriers in which no rank waits for another."""
    odd_noise_us: float = field(default=400.0, repr=False)
    """In these, each rank leaves up to this much later than it could."""
    start_stagger_us: float = field(default=53.0, repr=False)
    """Each rank's program starts this much later than that of the rank before."""

    jitter: float = field(default=0.03, repr=False)
    """Each kernel takes up to this share more or less time than its work."""

    slow_rank: int | None = field(default=None, repr=False)
    """The rank whose kernels, collectives left out, take `slow_factor` times as long."""
    slow_factor: float = field(default=1.5, repr=False)
    slow_link_rank: int | None = field(default=None, repr=False)
    """Collectives with this rank move data `slow_link_factor` times slower."""
    slow_link_factor: float = field(default=4.0, repr=False)
    late_rank: int | None = field(default=None, repr=False)
    """The rank that loses `late_us` on the host in every `late_every`-th step, for `late_reason`."""
    late_reason: LateReason = field(default="data_loader", repr=False)
    late_us: float = field(default=2000.0, repr=False)
    late_every: int = field(default=1, repr=False)

    missing_ranks: Numbers = field(default=(), repr=False)
    """Ranks that leave no trace."""
    dropped_collectives: Places = field(default=(), repr=False)
    """Collectives that the trace of one rank lacks: op, launch and kernel."""
    extra_collectives: Places = field(default=(), repr=False)
    """Before this collective the rank runs another one like it, alone."""
    extra_counts: bool = field(default=False, repr=False)
    """The sequence numbers of a rank count its extra collectives, so that they differ from those of other ranks."""
    collective_args: CollectiveArgs = field(default="all", repr=False)
    """What is recorded about collectives; `none` as in old traces, where names alone show it."""
    recording_begins_us: float = field(default=0.0, repr=False)
    """The recording begins so much later than the program, in mid-step, and lacks what began before."""
    recording_begins_rank: int | None = field(default=None, repr=False)
    """Only the recording of this rank does."""

    def __post_init__(self) -> None:
        for name in ("step_collectives", "collective_mb", "missing_ranks", "dropped_collectives", "extra_collectives"):
            value = getattr(self, name)
            object.__setattr__(self, name, tuple(tuple(v) if isinstance(v, (list, tuple)) else v for v in value))
        parallel = ("tensor_parallel", "pipeline_parallel", "micro_batches", "expert_parallel", "late_every")
        check(self, ("ranks", "steps", "layers", "batch", "tokens", "width", "heads", "vocabulary", *parallel))
        for kind in self.step_collectives:
            if kind not in CALLED_ALONE:
                raise ValueError(f"step_collectives has no kind {kind!r}; {hint(kind, CALLED_ALONE)}")
        for name in ("bus_gb_per_s", "network_gb_per_s", "slow_factor", "slow_link_factor"):
            if getattr(self, name) is not None and getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive")
        for name in ("end_noise_us", "odd_noise_us", "late_us", "start_stagger_us", "odd_share", "expert_skew",
                     "recording_begins_us", "jitter"):  # fmt: skip
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")
        for name in ("odd_share", "expert_skew", "jitter"):
            if getattr(self, name) > 1:
                raise ValueError(f"{name} is a share: at most 1")
        self._check_layout()
        self._check_named_ranks()
        for name in ("clock_offset_us", "clock_drift_ppm"):
            object.__setattr__(self, name, self._per_clock(name))

    @property
    def clocks(self) -> int:
        """Number of clocks: one per node, or per rank where no nodes are given."""
        return self.nodes or self.ranks

    @property
    def data_parallel(self) -> int:
        """Ranks with the same part of the model."""
        return self.ranks // (self.tensor_parallel * self.pipeline_parallel)

    def changed(self) -> dict[str, Any]:
        """The settings that the text of the options leaves out and that are not as usual."""
        rest = ((f.name, f.default, getattr(self, f.name)) for f in fields(self) if not f.repr)
        return {name: value for name, usual, value in rest if value != usual}

    def _check_layout(self) -> None:
        tensor, stages, experts = self.tensor_parallel, self.pipeline_parallel, self.expert_parallel
        if self.ranks % (tensor * stages):
            raise ValueError(f"ranks {self.ranks} is not a multiple of tensor_parallel times pipeline_parallel")
        if self.data_parallel % experts:
            raise ValueError(f"expert_parallel {experts} does not divide the {self.data_parallel} data parallel ranks")
        if self.heads % tensor:
            raise ValueError(f"heads {self.heads} is not a multiple of tensor_parallel {tensor}")
        if self.layers < stages:
            raise ValueError(f"layers {self.layers} are fewer than pipeline_parallel {stages}")
        if stages > 1 and self.batch % self.micro_batches:
            raise ValueError(f"batch {self.batch} is not a multiple of micro_batches {self.micro_batches}")
        if self.nodes is not None and (self.nodes < 1 or self.ranks % self.nodes):
            raise ValueError(f"ranks {self.ranks} is not a multiple of nodes {self.nodes}")

    def _check_named_ranks(self) -> None:
        one = ("dataloader_rank", "slow_rank", "slow_link_rank", "late_rank", "recording_begins_rank")
        named = [(name, getattr(self, name)) for name in one]
        named += [("missing_ranks", rank) for rank in self.missing_ranks]
        for name in ("dropped_collectives", "extra_collectives"):
            named += [(name, rank) for rank, _ in getattr(self, name)]
        for name, rank in named:
            if rank is not None and not 0 <= rank < self.ranks:
                raise ValueError(f"{name} names rank {rank} of {self.ranks}")
        if len(set(self.missing_ranks)) == self.ranks:
            raise ValueError("missing_ranks leaves no rank")

    def _per_clock(self, name: str) -> float | tuple[float, ...]:
        value = getattr(self, name)
        if callable(value):
            return tuple(value(clock) for clock in range(self.clocks))
        if isinstance(value, (int, float)):
            return value
        if len(value) != self.clocks:
            raise ValueError(f"{name} gives {len(value)} numbers for {self.clocks} clocks")
        return tuple(value)


PROBLEMS: Mapping[str, Mapping[str, Any]] = {
    "data_loader": {"dataloader_us": 12_000.0},
    "host_to_device_copy": {"copy_mb": 256.0, "pageable": True},
    "synchronization": {"sync_every_step": True, "batch": 2},
    "tiny_launches": {"tiny_kernels": 1000, "batch": 2},
    "python_bound": {"python_overhead_us": 900.0},
    "exposed_communication": {"ranks": 2, "bus_gb_per_s": 8.0},
    "late_rank": {"ranks": 2, "dataloader_us": 12_000.0, "dataloader_rank": 1},
}
"""Planted problems by name: the settings that make each what bounds the run."""
