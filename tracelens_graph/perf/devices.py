"""Devices and what they can do: figures from vendors' documents, or from a file of the user's.

`architecture("h100-sxm")` is a device that is known here, one file each in the folder `architectures`;
`architecture("mine.toml")` is one of yours; `detect(...)` is the one that a trace was recorded on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePath
from typing import Annotated, Any, NamedTuple

import msgspec

from tracelens_graph.errors import AnalysisError
from tracelens_graph.tables.table import Column
from tracelens_graph.utils.suggest import did_you_mean, either, there_are

FIGURES: Mapping[str, Column] = {
    "compute_units": Column("multiprocessors (NVIDIA) or compute units (AMD) in use"),
    "memory_gb": Column("size of the device's memory, as its vendor gives it", "GB"),
    "memory_bandwidth_gbps": Column("rate of the device's memory", "GB/s"),
    "host_link_gbps": Column("rate of the link to the host (PCIe, NVLink-C2C, xGMI), in one direction", "GB/s"),
    "gpu_link_gbps": Column(
        "rate of all links to the other devices of its host (NVLink, Infinity Fabric, else PCIe), in one direction",
        "GB/s",
    ),
    "l2_mb": Column("size of the cache that all units share", "MB"),
    **{
        f"matrix_{precision}": Column(f"rate of the matrix units in {precision}, without sparsity", "TFLOP/s")
        for precision in ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8")
    },
    **{
        f"vector_{precision}": Column(f"rate of the vector units in {precision}", "TFLOP/s")
        for precision in ("fp64", "fp32", "fp16", "bf16")
    },
}
"""What an architecture may say of a device. A multiply-add counts as two operations."""

_OF_VECTORS = ("vector_fp32", "matrix_fp32", "matrix_tf32", "matrix_bf16", "matrix_fp16")
_INSTEAD: Mapping[str, tuple[str, ...]] = {
    "matrix_tf32": ("matrix_fp32", "vector_fp32"),
    "matrix_fp32": ("vector_fp32",),
    "matrix_fp64": ("vector_fp64",),
    "vector_fp64": ("matrix_fp64",),
    **dict.fromkeys(("vector_fp32", "vector_fp16", "vector_bf16"), _OF_VECTORS),
}
"""Where a rate is not given -> those that hold, the first that is: without matrix units for a precision products run on
the vector units, without TF32 in fp32, and PyTorch's elementwise kernels compute on 16-bit elements in fp32. Of a
device without any rate of vectors that of its matrix units is an upper bound."""

_LEAST_MEMORY, _MOST_MEMORY = 0.9, 1.02
"""Share of a device's memory that a driver shows: error correction and the driver keep some."""

_VENDOR_WORDS = r"(?:NVIDIA |Tesla |AMD |Instinct )*"
_LONGEST = 60
"""Characters of a device's name that are shown."""
_NO_NAME = "the trace does not name its device"


class Source(NamedTuple):
    """Where figures stand.

    Attributes:
        document, table: title of the document, and the table in it.
        note: what was made of the numbers that stand there, such as halving rates with sparsity.
        confirmed: false where nobody has compared the figures with the document: they were written down from memory.
    """

    document: str = ""
    table: str = ""
    note: str = ""
    confirmed: bool = True


class Figure(NamedTuple):
    """A number and where it stands."""

    value: float
    source: Source


class Rate(NamedTuple):
    """A compute rate: the figure's name and value in TFLOP/s."""

    figure: str
    tflops: float


@dataclass(frozen=True)
class Architecture:
    """A device.

    Attributes:
        key: short name, such as `h100-sxm`; that of its file without the suffix.
        name: full name.
        figures: what is known of it; the names are those of `FIGURES`.
        achievable: whether the rates are those that measurements reach, not the vendor's peaks.
        aliases: other short names.
        device_names: patterns of the names by which drivers know it.
        memory_sizes: sizes in GB that it was made with.
    """

    key: str
    name: str
    vendor: str
    figures: Mapping[str, Figure]
    achievable: bool = False
    aliases: tuple[str, ...] = ()
    device_names: tuple[str, ...] = ()
    memory_sizes: tuple[float, ...] = ()

    def value(self, figure: str) -> float | None:
        """A figure; None if it is not known."""
        found = self.figures.get(figure)
        return found.value if found else None

    def rate(self, compute_spec: str) -> Rate | None:
        """The rate that holds for `matrix_bf16` and the like.

        Where it is not given, that of the units which do such work instead: vector units for products in fp32 and
        fp64, fp32 for TF32 and for vectors of 16-bit elements, matrix units where no rate of vectors is known, for
        those are not slower. None if there is none.
        """
        figures = (compute_spec, *_INSTEAD.get(compute_spec, ()))
        return next((Rate(name, self.figures[name].value) for name in figures if name in self.figures), None)

    def ridge(self, compute_spec: str) -> float | None:
        """FLOPs per byte from which on compute bounds, not memory: rate / bandwidth. None if one is not known."""
        rate, bandwidth = self.rate(compute_spec), self.value("memory_bandwidth_gbps")
        return rate.tflops * 1e3 / bandwidth if rate and bandwidth else None

    @property
    def unconfirmed(self) -> list[str]:
        """Figures that nobody has compared with their source."""
        return [name for name, figure in self.figures.items() if not figure.source.confirmed]


def architecture(name_or_path: str | os.PathLike[str] | Mapping[str, Any]) -> Architecture:
    """A device by its short name, or from a file that describes it.

    Args:
        name_or_path: a name such as `h100-sxm`, in any case, or a path that ends in `.toml` (in the form of the files
            in `architectures`) or `.json` (TraceLens's form: `name`, `mem_bw_gbps`, `max_achievable_tflops`), or
            what such a JSON file holds.

    Raises:
        AnalysisError: no device has this name, or the file describes none; the message says what is wrong.
        OSError: the file cannot be read.
    """
    if isinstance(name_or_path, Mapping):
        return _from_json(name_or_path, "the given device", msgspec.convert)
    if isinstance(name_or_path, os.PathLike) or PurePath(name_or_path).suffix.lower() in (".toml", ".json"):
        path = Path(name_or_path)
        form = _from_json if path.suffix.lower() == ".json" else _from_toml
        return replace(form(path.read_bytes(), str(path)), key=path.stem)
    known = {alias: found for found in shipped().values() for alias in (found.key, _plain(found.name), *found.aliases)}
    wanted = _plain(name_or_path)
    if wanted in known:
        return known[wanted]
    aliases = {alias: found.key for alias, found in known.items()}
    hint = did_you_mean(wanted, shipped(), aliases=aliases, most=3)
    hint = hint or f"{there_are(shipped())}, and files: mine.toml"
    raise AnalysisError(f"no architecture has the name {name_or_path[:_LONGEST]!r}: {hint}")


@cache
def shipped() -> Mapping[str, Architecture]:
    """All devices that are known here, by short name."""
    return {key: _shipped(key) for key in _files()}


@cache
def _files() -> Mapping[str, bytes]:
    """What the file of each device holds, by its short name."""
    folder = Path(__file__).parent / "architectures"
    return dict(sorted((file.stem, file.read_bytes()) for file in folder.glob("*.toml")))


@cache
def _shipped(key: str) -> Architecture:
    return _from_toml(_files()[key], key)


def _named(name: str) -> list[Architecture]:
    """Devices whose names in profiles fit a name. Of the files of others the last table alone is decoded."""
    found = []
    for key, text in _files().items():
        _, table, rest = text.rpartition(b"[detect]")
        names = _decoded(key, msgspec.toml.decode, rest, _Detection).names if table else ()
        if any(re.fullmatch(_VENDOR_WORDS + pattern, name, re.IGNORECASE) for pattern in names):
            found.append(_shipped(key))
    return found


def detect(device_properties: Iterable[Any] | None) -> Architecture | str:
    """The device that a trace was recorded on, from what the profiler wrote of it.

    Name, number of multiprocessors and size of memory have to agree with one known device; nothing is guessed. A
    profile of JAX has no name: there vendor, multiprocessors and memory have to (`by_properties`).

    Returns:
        The device, or why it is not known, in words.
    """
    described = [one for one in device_properties or () if isinstance(one, Mapping)]
    if not described:
        return "the trace describes no device"
    if alike := by_properties(described):
        names = either([one.key for one in alike])
        return alike[0] if len(alike) == 1 else f"{_NO_NAME}, which by its compute units and memory may be {names}"
    found: dict[str, Architecture] = {}
    for one in described:
        device = _detect_one(one)
        if isinstance(device, str):
            return device
        found[device.key] = device
    if len(found) > 1:
        return f"the trace describes several different devices: {', '.join(found)}"
    return next(iter(found.values()))


def taken_for(device_properties: Iterable[Any] | None) -> str:
    """A line that says which device was taken for one without a name; empty where none was."""
    alike = by_properties(device_properties)
    return (
        f"taken for {alike[0].name} by its compute units and memory; --arch names another device"
        if len(alike) == 1 else ""
    )  # fmt: skip


def _detect_one(properties: Mapping[str, Any]) -> Architecture | str:
    name, units = properties.get("name"), _recorded(properties, "numSms")
    memory = _recorded(properties, "totalGlobalMem")
    if not isinstance(name, str) or not name.strip():
        return _NO_NAME
    shown = repr(name if len(name) <= _LONGEST else name[:_LONGEST] + "...")
    named = _named(name.strip())
    if not named:
        return f"no architecture is known for the device {shown}"
    whole = [one for one in named if _has(one, units, memory)]
    if not whole:
        shows = f"{units:.0f} compute units" if units else "", f"{memory / 2**30:.0f} GiB" if memory else ""
        other = f"it is a part of {either([one.key for one in named])}, or another edition"
        return f"the device {shown} shows {' and '.join(filter(None, shows))}: {other}"
    if len(whole) > 1:
        return f"the device {shown} may be {either([one.key for one in whole])}"
    return whole[0]


def by_properties(device_properties: Iterable[Any] | None) -> list[Architecture]:
    """Devices that have the properties of one for which a profile of JAX has no name, by short name.

    Vendor, number of multiprocessors and size of memory have to agree, and all devices of the profile to be alike.
    Editions that are not known here may have the same, so screens say what a device is taken from (`taken_for`).

    Returns:
        No device where there is a name, or where something is missing; several where nothing separates them.
    """
    described = [one for one in device_properties or () if isinstance(one, Mapping)]
    recorded = {
        (one.get("vendor"), _recorded(one, "numSms"), _recorded(one, "totalGlobalMem"))
        for one in described
        if isinstance(one.get("vendor"), str)
    }
    if len(recorded) != 1 or any("name" in one for one in described):
        return []
    ((vendor, units, memory),) = recorded
    if units is None or memory is None:
        return []
    alike = [one for one in shipped().values() if one.vendor.lower() == str(vendor).lower()]
    return [one for one in alike if _has(one, units, memory)]


def _recorded(properties: Mapping[str, Any], key: str) -> float | None:
    """A number that the profiler wrote; None if it is absent or none that can be."""
    value = properties.get(key)
    return value if isinstance(value, int | float) and 0 < value < 2**53 else None


def _has(one: Architecture, units: float | None, memory: float | None) -> bool:
    """Whether a device has these multiprocessors and this memory in bytes, as far as they were recorded."""
    if units is not None and units != one.value("compute_units"):
        return False
    return memory is None or any(_LEAST_MEMORY <= memory / 2**30 / size <= _MOST_MEMORY for size in one.memory_sizes)


_Positive = Annotated[float, msgspec.Meta(gt=0, lt=1e12)]
_Group = msgspec.defstruct(
    "_Group",
    [
        *((word, bool if word == "confirmed" else str, default) for word, default in Source._field_defaults.items()),
        *((figure, _Positive | None, None) for figure in FIGURES),
    ],
    forbid_unknown_fields=True,
)


class _Detection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    names: tuple[str, ...] = ()
    memory_gb: tuple[float, ...] = ()


class _File(msgspec.Struct, forbid_unknown_fields=True):
    """Our form of an architecture. Sizes of memory in `detect` are those of other editions with the same figures."""

    figures: list[_Group]  # type: ignore[valid-type]
    name: str = ""
    vendor: str = ""
    achievable: bool = False
    aliases: tuple[str, ...] = ()
    detect: _Detection = _Detection()


class _TraceLensFile(msgspec.Struct):
    """TraceLens's form; what it needs for simulation only is left out."""

    max_achievable_tflops: dict[str, _Positive] = {}
    name: str = ""
    mem_bw_gbps: _Positive | None = None
    memory_gb: _Positive | None = None
    num_cus: _Positive | None = None


def _decoded(key: str, decode: Callable[..., Any], text: Any, form: type) -> Any:
    try:
        return decode(text, type=form)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise AnalysisError(f"{key}: describes no architecture: {error}") from None


def _from_toml(text: bytes, key: str) -> Architecture:
    file = _decoded(key, msgspec.toml.decode, text, _File)
    figures: dict[str, Figure] = {}
    for group in file.figures:
        source = Source(*(getattr(group, word) for word in Source._fields))
        given = {name: Figure(value, source) for name in FIGURES if (value := getattr(group, name)) is not None}
        if twice := sorted(given.keys() & figures.keys()):
            raise AnalysisError(f"{key}: given twice: {', '.join(twice)}")
        figures |= given
    memory = [figures["memory_gb"].value] if "memory_gb" in figures else []
    return Architecture(
        key,
        file.name or key,
        file.vendor,
        figures,
        file.achievable,
        file.aliases,
        file.detect.names,
        file.detect.memory_gb or tuple(memory),
    )


def _from_json(text: Any, key: str, decode: Callable[..., Any] = msgspec.json.decode) -> Architecture:
    file = _decoded(key, decode, text, _TraceLensFile)
    given = {
        "compute_units": file.num_cus, "memory_gb": file.memory_gb, "memory_bandwidth_gbps": file.mem_bw_gbps,
        **file.max_achievable_tflops,
    }  # fmt: skip
    figures = {name: Figure(value, Source(key)) for name, value in given.items() if value is not None}
    if not figures:
        raise AnalysisError(
            f"{key}: describes no architecture: it has no max_achievable_tflops, mem_bw_gbps, memory_gb or num_cus"
        )
    return Architecture(key, file.name or key, "", figures, achievable=True)


def _plain(name: str) -> str:
    """A name as it is looked up: lower case, hyphens, without words that every device of a vendor has."""
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return re.sub(r"^(?:(?:nvidia|amd|instinct|tesla|geforce)-)+", "", words)
