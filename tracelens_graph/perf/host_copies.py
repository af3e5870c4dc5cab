"""In which direction a copy goes, by its name; and whether it goes over the link between host and device."""

from __future__ import annotations

from collections.abc import Iterable

DIRECTIONS = (
    ("HtoD", ("HtoD", "HOST_TO_DEVICE", "HostToDevice", "pyH2D")),
    ("DtoH", ("DtoH", "DEVICE_TO_HOST", "DeviceToHost", "pyD2H")),
    ("DtoD", ("DtoD", "DEVICE_TO_DEVICE", "DeviceToDevice", "pyD2D")),
    ("HtoH", ("HtoH", "HOST_TO_HOST", "HostToHost", "pyH2H")),
    ("PtoP", ("PtoP", "PeerToPeer", "pyP2P")),
)
"""Direction of a copy, and words in its name that show it (XLA's are `MemcpyH2D`); the first that fits counts."""


def copy_direction(name: str) -> str:
    """Direction of a copy; "unknown" where its name does not show it."""
    return next((way for way, words in DIRECTIONS if any(word in name for word in words)), "unknown")


def over_the_link(gpu_events: Iterable[str]) -> bool:
    """Whether one of some GPU events, given by name, is a copy between host and device."""
    return any(copy_direction(name) in ("HtoD", "DtoH") for name in gpu_events)
