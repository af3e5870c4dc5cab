"""On which host each rank ran."""

from __future__ import annotations

from collections.abc import Sequence

from tracelens_graph.analyses.ranks.attendance import Attendance


def hosts_of(ranks: Sequence[Attendance]) -> list[int | None]:
    """The number of the host of each rank, from 0 on; None where nothing tells.

    The host that the trace names counts. Else the ranks of a job are taken to fill one host after the other, as
    launchers place them: with as many on each as the traces list devices.
    """
    if all(rank.host for rank in ranks):
        numbers: dict[str | None, int] = {}
        return [numbers.setdefault(rank.host, len(numbers)) for rank in ranks]
    devices = max((rank.devices for rank in ranks), default=0)
    return [rank.rank // devices if devices and rank.rank is not None else None for rank in ranks]
