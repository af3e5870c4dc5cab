"""Where a rank stands: its process groups, the host that it runs on, and the clock of that."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from tracelens_graph.simulate.options import Options

COMMS_ID = 0xC0FF_EE00_0000_0001
"""Of the default group. Above 2**63, as NCCL's communicator ids often are."""
SHOWN_RANKS = 30
"""PyTorch writes no more ranks of a group with a collective."""


@dataclass(frozen=True)
class Group:
    """A process group as one of its ranks sees it."""

    name: str
    description: str
    ranks: tuple[int, ...]

    @property
    def stride(self) -> int:
        """Distance of neighbouring ranks."""
        return self.ranks[1] - self.ranks[0] if len(self.ranks) > 1 else 1

    def comms_id(self, pair: tuple[int, int] | None = None) -> int:
        """Id of the communicator: of the group, or of two of its ranks that send to each other."""
        if self.name == "0" and pair is None:
            return COMMS_ID
        text = f"{self.name}/{self.ranks}/{pair and sorted(pair)}"
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") | 1 << 63

    def config(self) -> dict[str, object]:
        """Its entry in `pg_config`."""
        return {
            "pg_name": self.name,
            "pg_desc": self.description,
            "backend_config": "cuda:nccl",
            "pg_size": len(self.ranks),
            "ranks": list(self.ranks),
        }


def written_list(numbers: tuple[int, ...]) -> str:
    """A list of ranks or sizes as PyTorch writes it with a collective: a long one is cut."""
    if len(numbers) > SHOWN_RANKS:
        return f"[{', '.join(map(str, numbers[:SHOWN_RANKS]))}, ...]"
    return str(list(numbers))


@dataclass(frozen=True)
class Place:
    """Where a rank stands: its place along each kind of parallelism, its groups and its host.

    Ranks count tensor parallel places first, then data parallel ones, then stages, as Megatron does.
    """

    rank: int
    stage: int
    expert: int
    """Which expert of every layer it keeps."""
    world: Group
    data: Group
    """Ranks with the same part of the model."""
    tensor: Group
    pipeline: Group
    experts: Group
    """Ranks that exchange tokens."""
    replicas: Group
    """Ranks with the same experts."""
    node: int | None
    device: int
    """Number of its GPU, among those that its process sees."""

    @property
    def groups(self) -> list[Group]:
        """The groups of the job that this rank is in, each once."""
        every = (self.world, self.data, self.tensor, self.pipeline, self.experts, self.replicas)
        found = {(group.name, group.ranks): group for group in every if len(group.ranks) > 1}
        return list(found.values())

    @property
    def host_name(self) -> str | None:
        """Name of the host, None where hosts are not given."""
        return None if self.node is None else f"node{self.node:03d}"


def places(options: Options) -> list[Place]:
    """The place of every rank."""
    o = options
    tensor, data, stages, experts = o.tensor_parallel, o.data_parallel, o.pipeline_parallel, o.expert_parallel

    def at(t: int, d: int, s: int) -> int:
        return t + tensor * (d + data * s)

    world = Group("0", "default_pg", tuple(range(o.ranks)))
    names: dict[tuple[str, tuple[int, ...]], Group] = {}

    def group(purpose: str, ranks: list[int]) -> Group:
        if len(ranks) == 1 or (purpose == "dp" and tuple(ranks) == world.ranks):
            return world if len(world.ranks) == len(ranks) else Group("", f"mesh_{purpose}", tuple(ranks))
        key = (purpose, tuple(ranks))
        if key not in names:
            purposes = [purpose for purpose, _ in names]
            number = list(dict.fromkeys([*purposes, purpose])).index(purpose) if o.repeat_group_names else len(purposes)
            names[key] = Group(str(number + 1), f"mesh_{purpose}", tuple(ranks))
        return names[key]

    per_node = o.ranks // (o.nodes or 1)
    found = []
    for rank in range(o.ranks):
        t, d, s = rank % tensor, rank // tensor % data, rank // tensor // data
        block = d // experts * experts
        replicas = "edp" if experts > 1 else "dp"
        found.append(
            Place(
                rank=rank,
                stage=s,
                expert=d - block,
                world=world,
                data=group("dp", [at(t, i, s) for i in range(data)]),
                tensor=group("tp", [at(i, d, s) for i in range(tensor)]),
                pipeline=group("pp", [at(t, d, i) for i in range(stages)]),
                experts=group("ep", [at(t, i, s) for i in range(block, block + experts)]),
                replicas=group(replicas, [at(t, i, s) for i in range(d % experts, data, experts)]),
                node=None if o.nodes is None else rank // per_node,
                device=0 if o.nodes is None else rank % per_node,
            )
        )
    return found


START_NS = 1_428_625_700_000_000
"""When the recording starts, after the base time of the trace."""


@dataclass(frozen=True)
class Clock:
    """`offset_ns` ahead at `START_NS`, and `drift_ppm` nanoseconds more with each true millisecond after."""

    offset_ns: int
    drift_ppm: float

    def recorded(self, time: int) -> int:
        """What the clock shows at a true time; both in nanoseconds after the base."""
        drifted = round((time - START_NS) * self.drift_ppm / 1e6) if self.drift_ppm else 0
        return time + self.offset_ns + drifted


def clock_of(options: Options, place: Place) -> Clock:
    """The clock of a rank, or of its host where hosts are given."""
    number = place.rank if place.node is None else place.node
    return Clock(round(1000 * _value(options.clock_offset_us, number)), float(_value(options.clock_drift_ppm, number)))


def _value(setting: Any, clock: int) -> float:
    return setting[clock] if isinstance(setting, tuple) else clock * setting
