"""On which node of a cluster each rank runs, and whether a group of ranks stays on one.

Recordings seldom name their host. Where all do, ranks of one host are on one node; else ranks count through the nodes,
as many on each as a recording sees devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceMember

INTRA_NODE, INTER_NODE, UNKNOWN_SPAN = "intra_node", "inter_node", "unknown"


@dataclass(frozen=True)
class Nodes:
    """Nodes by number, in the order of their first ranks.

    Attributes:
        by_host: rank -> its node, of ranks that say where they ran; empty where hosts are not known.
        per_node: number of ranks per node, None where nothing tells. Counts only without hosts.
    """

    by_host: Mapping[int, int]
    per_node: int | None = None

    @classmethod
    def of(
        cls, ranks: Sequence[int], hosts: Sequence[str | None], devices: Sequence[int], per_node: int | None = None
    ) -> Nodes:
        """The nodes of the ranks of a job.

        Args:
            ranks: the ranks.
            hosts: where each ran, as `host_of` tells.
            devices: how many devices the recording of each lists.
            per_node: number of ranks per node, if the user says so; it goes before what recordings say.

        Raises:
            AnalysisError: `per_node` is below 1.
        """
        if per_node is not None:
            if type(per_node) is not int or per_node < 1:
                raise AnalysisError(f"{per_node!r} ranks per node: a whole number from 1 on is wanted")
            return cls({}, per_node)
        host_by_rank = dict(sorted(zip(ranks, hosts, strict=True), key=lambda pair: pair[0]))
        if host_by_rank and all(hosts):
            numbers = {host: number for number, host in enumerate(dict.fromkeys(host_by_rank.values()))}
            return cls({rank: numbers[host] for rank, host in host_by_rank.items()})
        counts = set(devices)
        told = counts.pop() if len(counts) == 1 else 0
        # A process that sees one device may have been kept from seeing the others of its node.
        return cls({}, told if told > 1 else None)

    def node_of(self, rank: int) -> int | None:
        """Number of the node of a rank; None if it is not known."""
        if self.by_host:
            return self.by_host.get(rank)
        return None if self.per_node is None else rank // self.per_node

    def span(self, ranks: Iterable[int] | None) -> str:
        """Whether some ranks are on one node: `intra_node`, `inter_node`, or `unknown`."""
        nodes = {self.node_of(rank) for rank in ranks or ()}
        if len(nodes - {None}) > 1:
            return INTER_NODE
        return INTRA_NODE if nodes and None not in nodes else UNKNOWN_SPAN


def host_of(trace: TraceMember) -> str | None:
    """Where a rank ran: the label `host=...` of its trace, else what the recording says; None for nothing."""
    told = trace.value_of("host") or trace.core.info.metadata.get("host")
    return str(told) if told else None


def devices_of(core: Core) -> int:
    """How many devices a recording lists."""
    properties = core.info.metadata.get("deviceProperties")
    return len(properties) if isinstance(properties, list) else 0
