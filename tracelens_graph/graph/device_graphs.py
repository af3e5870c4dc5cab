"""The devices of a host as ranks of their own: one graph for each, of a profile that one process made of all of them.

Each holds what the host did, and of GPU work what its device did. Ranks count through the hosts, as many on each as it
has devices, in the order in which the hosts are given; that is how JAX numbers devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np

from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.details import Details
from tracelens_graph.graph.graph import changed
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import DEVICE_KINDS

MOST_NAMED = 1 << 20
"""Devices that groups can name; what names more is damaged."""

_PLACES = ("parent", "last", "owner")
"""Columns that hold rows."""


def devices_of(core: Core) -> list[int]:
    """The devices that did something: GPUs, or where nothing ran on one what took part in collectives."""
    if len(core.gpu_rows):
        found = np.unique(core.columns.device[core.gpu_rows]).tolist()
    else:
        found = sorted({one["device"] for one in core.collective_args.values() if isinstance(one.get("device"), int)})
    return [device for device in found if device >= 0]


def by_device(windows: Sequence[Window]) -> Iterator[list[tuple[int, Window]]]:
    """For each profile its devices and what is known of them alone; none where it is not to be divided.

    Profiles of JAX alone are: PyTorch has a process for each device, or leaves it to the user what its devices are.
    """
    if not windows or not all(w.framework.devices_are_ranks for w in windows):
        yield from ([] for _ in windows)
        return
    devices = [devices_of(w.core) for w in windows]
    if sum(map(len, devices)) < 2:
        yield from ([] for _ in windows)
        return
    counts = [_count(w.core, own) for w, own in zip(windows, devices, strict=True)]
    firsts = [sum(counts[:host]) for host in range(len(counts))]
    named = max(_farthest(w.core, first) for w, first in zip(windows, firsts, strict=True))
    active = max(first + own[-1] for first, own in zip(firsts, devices, strict=True) if own)
    # Devices that nobody names may be of no job at all.
    world = max(named, active) + 1 if 0 <= named < MOST_NAMED else None
    for host, (w, own, first) in enumerate(zip(windows, devices, firsts, strict=True)):
        yield [(device, _of_device(w, device, first, world, host)) for device in own]


def _count(core: Core, devices: Sequence[int]) -> int:
    properties = core.info.metadata.get("deviceProperties")
    return max(len(properties) if isinstance(properties, list) else 0, max(devices, default=-1) + 1)


def _farthest(core: Core, first: int) -> int:
    """The last rank that takes part in a collective; devices are ranks from `first` on. -1 for none."""
    found = -1
    for one in core.collective_args.values():
        if "groups" in one:
            found = max((found, *(device for group in one["groups"] for device in group)))
        elif isinstance(one.get("ranks"), list):
            found = max((found, *(first + device for device in one["ranks"])))
    return found


def _of_device(w: Window, device: int, first: int, world: int | None, host: int) -> Window:
    core, c = w.core, w.core.columns
    rows = np.flatnonzero(~is_kind(c.kind, DEVICE_KINDS) | (c.device == device))
    place = np.full(len(c) + 1, -1, np.int64)
    place[rows] = np.arange(len(rows))
    columns = {name: column[rows] for name, column in c if name not in _PLACES}
    # What is left out has nothing below it, so that a range of rows loses some, and stays one.
    kept_before = np.cumsum(np.bincount(rows, minlength=len(c))) - 1 if len(c) else np.zeros(0, np.int64)
    columns["last"] = kept_before[c.last[rows]].astype(c.last.dtype)
    for name in ("parent", "owner"):
        if name in c.names:
            column = getattr(c, name)
            columns[name] = place[column[rows]].astype(column.dtype)
    metadata = dict(core.info.metadata)
    metadata["distributedInfo"] = {"rank": first + device, **({} if world is None else {"world_size": world})}
    metadata["host"] = f"host {host}"
    properties = metadata.get("deviceProperties")
    if isinstance(properties, list):
        metadata["deviceProperties"] = [one for one in properties if isinstance(one, dict) and one.get("id") == device]
    depends_on = place[core.depends_on]
    found = changed(
        core,
        columns=Columns(columns),
        depends_on=depends_on[(depends_on >= 0).all(axis=1)],
        collective_args=_collectives(core.collective_args, device, first),
        info=replace(core.info, metadata=metadata),
        details=DeviceDetails(core.details, device),
    )
    if w.is_whole and not w.title:
        return found.everything
    return Window(found, w.holds(rows), w.title, w.extension)


def _collectives(arguments: Mapping[int, dict[str, Any]], device: int, first: int) -> dict[int, dict[str, Any]]:
    """Collectives of a device, with the ranks of its groups.

    Groups that name devices of this host only count from its first one.
    """
    rank, found = first + device, {}
    for uid, one in arguments.items():
        if one.get("device", device) != device:
            continue
        kept = {key: value for key, value in one.items() if key not in ("device", "groups")}
        if "groups" in one:
            kept["ranks"] = next((group for group in one["groups"] if rank in group), None)
        elif first and isinstance(one.get("ranks"), list):
            kept["ranks"] = [number + first for number in one["ranks"]]
        found[uid] = {key: value for key, value in kept.items() if value is not None}
    return found


class DeviceDetails(Details):
    """The events of a profile; the part of one device is a trace of its own."""

    def __init__(self, whole: Details, device: int) -> None:
        super().__init__(whole.first, whole.count)
        self._whole, self._device = whole, device

    def texts(self, blocks: Iterable[int]) -> Iterator[bytes]:
        """Those of the profile."""
        return self._whole.texts(blocks)

    def identity(self) -> str | None:
        """An id that differs from the profile's, and from those of its other devices."""
        known = self._whole.identity()
        return known and blake2b(f"{known} device {self._device}".encode(), digest_size=len(known) // 2).hexdigest()
