"""Tables of the devices that are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tracelens_graph.perf.devices import FIGURES, Architecture
from tracelens_graph.tables.table import Column, Table

_LISTED = (
    "memory_gb",
    "memory_bandwidth_gbps",
    "host_link_gbps",
    "matrix_fp32",
    "matrix_fp16",
    "matrix_fp8",
    "vector_fp32",
)
_RIDGE = "FLOPs per byte from which on compute bounds and no longer memory: rate / bandwidth"

DEVICES: Mapping[str, Column] = {
    "architecture": Column("short name, as `--arch` takes it"),
    "device": Column("full name"),
    **{name: FIGURES[name] for name in _LISTED},
    "ridge_fp16": Column(f"{_RIDGE}; for products in fp16", "FLOP/B"),
}
DEVICE: Mapping[str, Column] = {
    "figure": Column("what is known of the device"),
    "value": Column("its number"),
    "unit": Column("unit of the number"),
    "ridge": Column(_RIDGE, "FLOP/B"),
    "document": Column("title of the document in which it stands"),
    "table": Column("table of the document"),
    "note": Column("what was made of the numbers of the document"),
    "confirmed": Column("whether somebody has compared the figure with the document"),
}


def devices(architectures: Iterable[Architecture]) -> Table:
    """Devices, one row each, with the figures that tell most."""
    rows = [(one.key, one.name, *map(one.value, _LISTED), one.ridge("matrix_fp16")) for one in architectures]
    columns = dict(zip(DEVICES, map(list, zip(*rows, strict=True)), strict=True))
    return Table("architectures", columns, DEVICES, "Devices (rates in TFLOPS, without sparsity)")


def device(one: Architecture) -> Table:
    """All that is known of a device, one figure a row, in the order of `FIGURES`."""
    names = sorted(one.figures, key=list({**FIGURES, **one.figures}).index)
    rows = [
        (
            name,
            one.figures[name].value,
            FIGURES[name].unit if name in FIGURES else "TFLOPS",
            one.ridge(name) if name.startswith(("matrix_", "vector_")) else None,
            *one.figures[name].source,
        )
        for name in names
    ]
    columns = dict(zip(DEVICE, map(list, zip(*rows, strict=True)), strict=True))
    rates = "rates that measurements reach" if one.achievable else "peak rates, without sparsity"
    return Table("architecture", columns, DEVICE, f"{one.name} ({rates})")
