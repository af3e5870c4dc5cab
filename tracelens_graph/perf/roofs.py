"""The roofline model: the least time that work can take on a device, and what bounds it. Caches are left out.

S. Williams, A. Waterman, D. Patterson: Roofline: an insightful visual performance model for multicore
architectures, Communications of the ACM 52 (2009).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tracelens_graph.perf.cost import Cost
from tracelens_graph.perf.devices import FIGURES, Architecture, architecture
from tracelens_graph.tables.table import Column, Table

_MOST = 2**63
"""Bytes from here on are of damaged sizes."""

Bound = Literal["COMPUTE_BOUND", "MEMORY_BOUND", "LINK_BOUND"]

COST_COLUMNS: Mapping[str, Column] = {
    "GFLOPS": Column("floating-point operations; a multiply-add counts as two", "GFLOP", heading="GFLOP"),
    "Data Moved (MB)": Column("least traffic to and from memory: each tensor once", "MiB", heading="MiB"),
    "FLOPS/Byte": Column("operations per byte moved", "FLOP/B", heading="FLOP/B"),
    "Compute Spec": Column("units that compute it, and in which precision", heading="units"),
}
ROOF_COLUMNS: Mapping[str, Column] = {
    "Architecture": Column("the device", heading="device"),
    "Rate (TFLOPS/s)": Column("rate of the device that holds for the work", "TFLOP/s", heading="TFLOP/s"),
    "Ridge": Column("operations per byte from which on compute bounds", "FLOP/B", heading="ridge"),
    "Compute (µs)": Column("operations / rate", "us", heading="compute us"),
    "Memory (µs)": Column("bytes moved / memory bandwidth", "us", heading="memory us"),
    "Roofline Time (µs)": Column(
        "the larger of the two: the least time, unless data lies in a cache", "us", heading="roof us"
    ),
    "Roofline Bound": Column("COMPUTE_BOUND or MEMORY_BOUND: which of the two it is", heading="bound"),
    "Pct Roofline": Column("roofline time / measured time", "%", heading="% of roof"),
}


@dataclass(frozen=True)
class Roof:
    """The least time that some work can take.

    Attributes:
        compute_us: operations / rate of the device.
        memory_us: bytes / bandwidth of its memory.
        rate: figure of the architecture that held as rate, such as `matrix_bf16`.
        link_us: of a copy between host and device, bytes / rate of the link between them: then all that counts.
    """

    compute_us: float
    memory_us: float
    rate: str
    link_us: float | None = None

    @property
    def time_us(self) -> float:
        """The larger of compute and memory time; of a copy between host and device that on the link."""
        return max(self.compute_us, self.memory_us) if self.link_us is None else self.link_us

    @property
    def bound(self) -> Bound:
        """Which of these it is."""
        if self.link_us is not None:
            return "LINK_BOUND"
        return "COMPUTE_BOUND" if self.compute_us >= self.memory_us else "MEMORY_BOUND"

    def percent(self, measured_us: float) -> float | None:
        """Share of the least time in a measured one, in percent; None if nothing was measured."""
        return 100 * self.time_us / measured_us if measured_us > 0 else None


def roofline(cost: Cost, arch: Architecture) -> Roof | str:
    """The least time in which a device can do some work.

    Compute time = FLOPs / rate, memory time = bytes / bandwidth; computing and moving overlap at best, so the larger
    one remains. A copy between host and device takes as long as its bytes on the link, which is slower than any memory.

    Returns:
        The roof, or why there is none, in words.
    """
    if cost.link_bytes is not None:
        link = arch.value("host_link_gbps")
        if link is None:
            return f"the rate of the link between {arch.key} and its host is not known"
        return Roof(0.0, 0.0, "host_link_gbps", cost.link_bytes / (link * 1e3))
    if cost.flops <= 0:
        return "it computes nothing"
    if cost.bytes is None:
        return "the bytes moved are not known"
    if not cost.precision:
        return "no device has a rate for this element type"
    rate, bandwidth = arch.rate(cost.compute_spec), arch.value("memory_bandwidth_gbps")
    if rate is None:
        return f"{arch.key} has no rate for {cost.compute_spec}"
    if bandwidth is None:
        return f"the memory bandwidth of {arch.key} is not known"
    try:
        return Roof(cost.flops / (rate.tflops * 1e6), cost.bytes / (bandwidth * 1e3), rate.figure)
    except OverflowError:
        return "its size is out of range"


def traffic_us(cost: Cost, arch: Architecture) -> float | None:
    """The least time, in us, of work that memory bounds on every device: bytes / bandwidth.

    That is what computes nothing, and elementwise work on whole numbers or truth values, for which devices give no
    rate. None for any other work, and where bytes or bandwidth are not known.
    """
    bandwidth = arch.value("memory_bandwidth_gbps")
    computes = cost.flops != 0 and (cost.unit != "vector" or bool(cost.precision))
    if cost.link_bytes is not None or computes or cost.bytes is None or cost.bytes >= _MOST or not bandwidth:
        return None
    return cost.bytes / (bandwidth * 1e3)


def least_us(cost: Cost, arch: Architecture) -> float | None:
    """The least time in which a device can do some work, in us: by `roofline`, else `traffic_us`; None for neither."""
    roof = roofline(cost, arch)
    return roof.time_us if isinstance(roof, Roof) else traffic_us(cost, arch)


def peak_bus_bandwidth(device: Architecture | str, one_host: bool = True) -> float | None:
    """The bus bandwidth that collectives can reach at most, as NCCL's tests define it: the rate of a device's links.

    A switch that adds up (NVLink SHARP) halves what an all-reduce sends, and may take it above.

    Args:
        device: a device, or a name that `architecture` knows.
        one_host: whether all ranks are on one host; the rate of networks between hosts is not known.

    Returns:
        GB/s in one direction. None where it is not known: between hosts, and of cards and dies whose links depend on
        how the host is built.

    Raises:
        AnalysisError: no device has the name.
    """
    found = architecture(device) if isinstance(device, str) else device
    return found.value("gpu_link_gbps") if one_host else None


def roof_table(
    cost: Cost, architectures: Sequence[Architecture] = (), measured_us: float | None = None, title: str = ""
) -> Table:
    """Work and traffic of a call, and its roof on each of some devices.

    Args:
        architectures: devices, one row each; without any the only row says what holds on all.
        measured_us: a measured time, to be compared with the roofs.
        title: what it is that costs.
    """
    work = {
        "GFLOPS": cost.flops / 1e9,
        "Data Moved (MB)": None if cost.bytes is None else cost.bytes / 2**20,
        "FLOPS/Byte": cost.intensity,
        "Compute Spec": cost.compute_spec,
    }
    rows: list[dict[str, Any]] = []
    notes, unconfirmed = _ranges(cost), []
    for arch in architectures:
        rate, roof = arch.rate(cost.compute_spec), roofline(cost, arch)
        row = dict.fromkeys(ROOF_COLUMNS) | {"Architecture": arch.key, **work}
        row["Rate (TFLOPS/s)"] = rate.tflops if rate else None
        row["Ridge"] = arch.ridge(cost.compute_spec)
        if isinstance(roof, Roof):
            row["Compute (µs)"], row["Memory (µs)"] = roof.compute_us, roof.memory_us
            row["Roofline Time (µs)"], row["Roofline Bound"] = roof.time_us, roof.bound
            row["Pct Roofline"] = None if measured_us is None else roof.percent(measured_us)
            if roof.rate != cost.compute_spec:
                notes.append(f"{arch.key}: {cost.compute_spec} runs at the rate of {roof.rate}")
            if not {roof.rate, "memory_bandwidth_gbps"}.isdisjoint(arch.unconfirmed):
                unconfirmed.append(arch.key)
        else:
            notes.append(f"{arch.key}: no roof: {roof}")
        rows.append(row)
    if unconfirmed:
        notes.append(f"not yet checked against the vendor's document: the rates of {', '.join(unconfirmed)}")
    about = {"Architecture": ROOF_COLUMNS["Architecture"], **COST_COLUMNS, **ROOF_COLUMNS} if rows else COST_COLUMNS
    if measured_us is None:
        about = {name: column for name, column in about.items() if name != "Pct Roofline"}
    columns = {name: [row[name] for row in rows or [work]] for name in about}
    return Table("model", columns, about, title, notes)


def _ranges(cost: Cost) -> list[str]:
    """Notes on what the arguments leave open."""
    found = []
    if cost.flops_range:
        low, high = (flops / 1e9 for flops in cost.flops_range)
        found.append(f"GFLOP: {low:,.3f} to {high:,.3f}, as the arguments leave it open")
    if cost.bytes_range:
        low, high = (size / 2**20 for size in cost.bytes_range)
        found.append(f"data moved: {low:,.3f} to {high:,.3f} MiB, as the arguments leave it open")
    return found


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
    """Devices, one row each, with the most important figures."""
    rows = [(one.key, one.name, *map(one.value, _LISTED), one.ridge("matrix_fp16")) for one in architectures]
    columns = dict(zip(DEVICES, map(list, zip(*rows, strict=True)), strict=True))
    return Table("architectures", columns, DEVICES, "Devices (rates in TFLOP/s, without sparsity)")


def device(one: Architecture) -> Table:
    """All that is known of a device, one figure a row, in the order of `FIGURES`."""
    names = sorted(one.figures, key=list({**FIGURES, **one.figures}).index)
    rows = [
        (
            name,
            one.figures[name].value,
            FIGURES[name].unit if name in FIGURES else "TFLOP/s",
            one.ridge(name) if name.startswith(("matrix_", "vector_")) else None,
            *one.figures[name].source,
        )
        for name in names
    ]
    columns = dict(zip(DEVICE, map(list, zip(*rows, strict=True)), strict=True))
    rates = "rates that measurements reach" if one.achievable else "peak rates, without sparsity"
    return Table("architecture", columns, DEVICE, f"{one.name} ({rates})")
