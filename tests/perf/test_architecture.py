"""Devices: their figures hold together, names and files are found or refused, a trace's device is told or not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus import CHECKOUT, kineto_traces, needs_corpus, trace_id
from tracelens_graph.errors import AnalysisError
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.devices import Rate, architecture, by_properties, detect, shipped, taken_for
from tracelens_graph.perf.roofs import devices, peak_bus_bandwidth

SHIPPED = shipped()
GIB = 2**30
A100_40 = {"name": "NVIDIA A100-PG509-200", "totalGlobalMem": 42297524224, "numSms": 108}
H100 = {"name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85018279936, "numSms": 132}
MI300X = {"name": "AMD Instinct MI300X VF", "totalGlobalMem": 205571227648, "numSms": 304}

# Operations per clock and unit in fp16, and the clock in GHz that vendors compute their rates with.
CLOCKS = {
    "a10": (1024, 1.695), "a100-40gb": (2048, 1.41), "a100-pcie-80gb": (2048, 1.41), "a100-sxm-80gb": (2048, 1.41),
    "b200": (8192, 1.855), "h100-pcie": (4096, 1.62), "h100-sxm": (4096, 1.83), "h200": (4096, 1.83),
    "l4": (1024, 2.04), "l40s": (1024, 2.49), "mi210": (1024, 1.7), "mi250-gcd": (1024, 1.7), "mi250x": (1024, 1.7),
    "mi250x-gcd": (1024, 1.7), "mi300x": (2048, 2.1), "mi325x": (2048, 2.1), "mi355x": (4096, 2.4),
    "rtx-4090": (512, 2.52), "rtx-5090": (512, 2.407), "v100-pcie": (1024, 1.37), "v100-sxm2": (1024, 1.53),
}  # fmt: skip
# Width of the memory bus in bits, and what a line of it carries in Gbit/s.
BUSES = {
    "a10": (384, 12.5), "a100-40gb": (5120, 2.43), "a100-pcie-80gb": (5120, 3.024), "a100-sxm-80gb": (5120, 3.186),
    "b200": (8192, 8.0), "h100-pcie": (5120, 3.186), "h100-sxm": (5120, 5.237), "h200": (6144, 6.25),
    "l4": (192, 12.5), "l40s": (384, 18), "mi210": (4096, 3.2), "mi250-gcd": (4096, 3.2), "mi250x": (8192, 3.2),
    "mi250x-gcd": (4096, 3.2), "mi300x": (8192, 5.2), "mi325x": (8192, 6.0), "mi355x": (8192, 8.0),
    "rtx-4090": (384, 21), "rtx-5090": (512, 28), "v100-pcie": (4096, 1.757), "v100-sxm2": (4096, 1.757),
}  # fmt: skip
# Driver's name, multiprocessors, GiB that are shown -> architecture.
SEEN = [
    ("Tesla V100-SXM2-32GB", 80, 31.74, "v100-sxm2"),
    ("Tesla V100-SXM2-16GB", 80, 15.78, "v100-sxm2"),
    ("Tesla V100-DGXS-32GB", 80, 31.74, "v100-sxm2"),
    ("Tesla V100-PCIE-16GB", 80, 15.78, "v100-pcie"),
    ("A100-SXM4-40GB", 108, 39.59, "a100-40gb"),
    ("NVIDIA A100-PCIE-40GB", 108, 39.59, "a100-40gb"),
    ("NVIDIA A100-SXM4-80GB", 108, 79.15, "a100-sxm-80gb"),
    ("NVIDIA A100-PG509-210", 108, 79.15, "a100-sxm-80gb"),
    ("NVIDIA A100 80GB PCIe", 108, 79.15, "a100-pcie-80gb"),
    ("NVIDIA A10", 72, 22.49, "a10"),
    ("NVIDIA L4", 58, 22.49, "l4"),
    ("NVIDIA L40S", 142, 44.99, "l40s"),
    ("NVIDIA H100 80GB HBM3", 132, 79.18, "h100-sxm"),
    ("NVIDIA H100 PCIe", 114, 79.18, "h100-pcie"),
    ("NVIDIA H100 NVL", 132, 93.11, "h100-nvl"),
    ("NVIDIA H200", 132, 139.8, "h200"),
    ("NVIDIA GH200 480GB", 132, 94.5, "gh200"),
    ("NVIDIA B200", 148, 178.35, "b200"),
    ("NVIDIA GeForce RTX 4090", 128, 23.99, "rtx-4090"),
    ("NVIDIA GeForce RTX 5090", 170, 31.84, "rtx-5090"),
    ("AMD Instinct MI210", 104, 63.98, "mi210"),
    ("AMD Instinct MI250X", 110, 63.98, "mi250x-gcd"),
    ("AMD Instinct MI250X / MI250", 110, 63.98, "mi250x-gcd"),
    ("AMD Instinct MI250X / MI250", 104, 63.98, "mi250-gcd"),
    ("AMD Instinct MI250", 104, 63.98, "mi250-gcd"),
    ("AMD Instinct MI300X", 304, 191.98, "mi300x"),
    ("AMD Instinct MI300X VF", 304, 191.45, "mi300x"),
    ("AMD Instinct MI325X", 304, 255.98, "mi325x"),
    ("AMD Instinct MI355X", 256, 287.98, "mi355x"),
]
UNKNOWN = [
    "AMD Radeon Graphics", "NVIDIA A10G", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA GeForce RTX 4090 Laptop GPU",
    "NVIDIA GeForce RTX 4090 D", "NVIDIA L40", "Tesla V100S-PCIE-32GB", "AMD Instinct MI300A", "NVIDIA H200 NVL",
    "NVIDIA GH200 144G HBM3e", "NVIDIA", "h100-sxm", "NVIDIA H100 80GB HBM3\n\x1b[31m",
]  # fmt: skip


def seen(name: str, units: int, gib: float) -> dict[str, Any]:
    return {"id": 0, "name": name, "numSms": units, "totalGlobalMem": int(gib * GIB)}


def key_of(properties: list[Any]) -> str:
    found = detect(properties)
    assert not isinstance(found, str), found
    return found.key


# -- the devices that are known


@pytest.mark.parametrize("key", SHIPPED)
def test_device_is_whole_and_says_where_it_stands(key: str) -> None:
    one = SHIPPED[key]
    assert one.name.startswith(f"{one.vendor} ")
    assert not one.achievable
    assert {"compute_units", "memory_gb", "memory_bandwidth_gbps", "matrix_fp16", "vector_fp32"} <= one.figures.keys()
    assert "host_link_gbps" in one.figures
    for figure in one.figures.values():
        assert figure.source.document.startswith(one.vendor)
        assert figure.source.table


@pytest.mark.parametrize("key", SHIPPED)
def test_the_link_to_the_host_is_that_of_its_generation_and_lanes(key: str) -> None:
    """PCIe: transfers per second and lane, 128 of 130 bits of which are data; others as their vendor gives them."""
    figure = SHIPPED[key].figures["host_link_gbps"]
    found = re.match(r"PCIe (\d)\.0, (\d+) lanes of (\d+) GT/s", figure.source.note)
    if found:
        generation, lanes, transfers = map(int, found.groups())
        assert transfers == 2**generation * (1 if generation > 2 else 0)
        assert figure.value == pytest.approx(lanes * transfers * 128 / 130 / 8, rel=1e-4)
    else:
        assert re.match("NVLink-C2C|Infinity Fabric", figure.source.note)


# Links of a device to others of its host, and GB/s of each in one direction.
LINKS = {
    "v100-sxm2": (6, 25), "a100-sxm-80gb": (12, 25), "h100-sxm": (18, 25), "h200": (18, 25), "b200": (18, 50),
    "mi300x": (7, 64), "mi325x": (7, 64), "mi355x": (7, 76.8),
}  # fmt: skip
WIRED_BY_THE_HOST = {
    "a100-40gb", "a100-pcie-80gb", "gh200", "h100-nvl", "h100-pcie", "mi210", "mi250-gcd", "mi250x", "mi250x-gcd",
}  # fmt: skip
"""Devices whose links depend on bridges and on how the host is built, or of which two forms have one name."""


@pytest.mark.parametrize("key", SHIPPED)
def test_peak_bus_bandwidth_is_that_of_the_links(key: str) -> None:
    found = peak_bus_bandwidth(key)
    assert found == peak_bus_bandwidth(SHIPPED[key])
    assert peak_bus_bandwidth(key, one_host=False) is None
    if key in LINKS:
        links, rate = LINKS[key]
        assert found == pytest.approx(links * rate)
        assert f"{links} links of {rate:g} GB/s" in SHIPPED[key].figures["gpu_link_gbps"].source.note
    elif key in WIRED_BY_THE_HOST:
        assert found is None
    else:
        assert found == SHIPPED[key].value("host_link_gbps")


@pytest.mark.parametrize("key", CLOCKS)
def test_fp16_rate_is_units_times_operations_times_clock(key: str) -> None:
    """A rate with sparsity, or that of another edition, would not fit."""
    operations, clock = CLOCKS[key]
    units, rate = SHIPPED[key].value("compute_units"), SHIPPED[key].value("matrix_fp16")
    assert units is not None
    assert rate == pytest.approx(units * operations * clock / 1e3, rel=0.01)


@pytest.mark.parametrize("key", BUSES)
def test_bandwidth_is_that_of_the_bus(key: str) -> None:
    width, rate = BUSES[key]
    assert SHIPPED[key].value("memory_bandwidth_gbps") == pytest.approx(width / 8 * rate, rel=0.03)


@pytest.mark.parametrize("key", SHIPPED)
def test_rates_of_one_device_fit_together(key: str) -> None:
    one, times_fp16 = SHIPPED[key], {"matrix_bf16": {1}, "matrix_tf32": {0.5}, "matrix_fp8": {2}, "matrix_fp4": {4, 8}}
    fp16 = one.figures["matrix_fp16"].value
    for name in times_fp16.keys() & one.figures.keys():
        ratio = one.figures[name].value / fp16
        assert any(ratio == pytest.approx(expected, rel=0.02) for expected in times_fp16[name]), name
    assert one.figures["vector_fp32"].value < fp16


def test_one_die_is_half_of_the_card() -> None:
    die, card = SHIPPED["mi250x-gcd"], SHIPPED["mi250x"]
    assert die.figures.keys() == card.figures.keys()
    for name, figure in die.figures.items():
        assert 2 * figure.value == pytest.approx(card.figures[name].value), name


# -- by name


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("h100-sxm", "h100-sxm"), ("H100-SXM", "h100-sxm"), ("h100_sxm5", "h100-sxm"), ("NVIDIA H100 SXM5", "h100-sxm"),
        ("MI300X", "mi300x"), ("AMD Instinct MI300X", "mi300x"), ("A100 SXM 80GB", "a100-sxm-80gb"),
        ("4090", "rtx-4090"), ("a100-pcie-40gb", "a100-40gb"), ("V100-SXM2-16GB", "v100-sxm2"),
    ],
)  # fmt: skip
def test_names(name: str, key: str) -> None:
    assert architecture(name) is SHIPPED[key]


def test_no_name_is_given_to_two_devices() -> None:
    names = Counter(name for one in SHIPPED.values() for name in (one.key, *one.aliases))
    assert {name for name, count in names.items() if count > 1} == set()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("h100", "did you mean h100-nvl, h100-pcie or h100-sxm?"),
        ("a100", "did you mean a100-40gb, a100-pcie-80gb or a100-sxm-80gb?"),
        ("mi300", "did you mean mi300x?"),
        ("h100-smx", "did you mean h100-sxm"),
        ("tpu", "there are a10, "),
        ("", "there are a10, "),
        ("../../etc", "there are a10, "),
    ],
)
def test_unknown_name_is_an_error_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(AnalysisError, match=re.escape(hint)):
        architecture(name)


# -- by file


def test_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "Mine"\nachievable = true\n[[figures]]\nmemory_bandwidth_gbps = 2900\nmatrix_bf16 = 720\n'
        '[[figures]]\ndocument = "Book"\nconfirmed = false\nvector_fp32 = 58.5\n'
    )
    mine = architecture(path)
    assert (mine.key, mine.name, mine.achievable) == ("mine", "Mine", True)
    assert mine.value("matrix_bf16") == 720
    assert mine.figures["vector_fp32"].source.document == "Book"
    assert mine.unconfirmed == ["vector_fp32"]
    assert mine.value("l2_mb") is None
    assert architecture(str(path)) == mine


def test_file_in_the_form_of_tracelens(tmp_path: Path) -> None:
    path = tmp_path / "Their GPU.JSON"
    content = {
        "name": "T", "mem_bw_gbps": 5300, "memory_gb": 192, "freq_mhz": 2100, "num_cus": 304,
        "max_achievable_tflops": {"matrix_bf16": 708, "matrix_fp6": 1500.5},
    }  # fmt: skip
    path.write_text(json.dumps(content))
    found = architecture(str(path))
    assert (found.key, found.name, found.achievable) == ("Their GPU", "T", True)
    assert {name: figure.value for name, figure in found.figures.items()} == {
        "compute_units": 304, "memory_gb": 192, "memory_bandwidth_gbps": 5300, "matrix_bf16": 708, "matrix_fp6": 1500.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.toml", b"x", "describes no architecture"),
        ("a.toml", b"\xff", "describes no architecture"),
        ("a.toml", b"", "figures"),
        ("a.toml", b"figures = [1]", "figures"),
        ("a.toml", b"[[figures]]\nmatrix_bf61 = 1", "matrix_bf61"),
        ("a.toml", b"[[figures]]\nmatrix_bf16 = 0", "matrix_bf16"),
        ("a.toml", b"[[figures]]\nmatrix_bf16 = nan", "matrix_bf16"),
        ("a.toml", b"[[figures]]\nmatrix_bf16 = inf", "matrix_bf16"),
        ("a.toml", b"[[figures]]\nmatrix_bf16 = true", "matrix_bf16"),
        ("a.toml", b'[[figures]]\nmatrix_bf16 = "7"', "matrix_bf16"),
        ("a.toml", b"[[figures]]\nl2_mb = 1\n[[figures]]\nl2_mb = 1", "given twice: l2_mb"),
        ("a.toml", b"a = " + b"[" * 100_000, "describes no architecture"),
        ("a.json", b"x", "describes no architecture"),
        ("a.json", b"[]", "describes no architecture"),
        ("a.json", b"{}", "max_achievable_tflops"),
        ("a.json", b'{"max_achievable_tflops": {"matrix_bf16": NaN}}', "describes no architecture"),
        ("a.json", b'{"max_achievable_tflops": {"matrix_bf16": -1}}', "describes no architecture"),
        ("a.json", b'{"max_achievable_tflops": {"matrix_bf16": 1e999}}', "describes no architecture"),
        ("a.json", b'{"mem_bw_gbps": "x", "max_achievable_tflops": {}}', "mem_bw_gbps"),
        ("a.json", b'{"x": ' + b"[" * 100_000, "describes no architecture"),
    ],
)
def test_broken_file_is_an_error_that_names_it(tmp_path: Path, name: str, text: bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(text)
    with pytest.raises(AnalysisError, match=re.escape(says)) as error:
        architecture(path)
    assert str(path) in str(error.value)


# -- rates


@pytest.mark.parametrize(
    ("key", "spec", "rate"),
    [
        ("h100-sxm", "matrix_bf16", Rate("matrix_bf16", 989.4)),
        ("h100-sxm", "matrix_fp32", Rate("vector_fp32", 66.9)),
        ("v100-sxm2", "matrix_tf32", Rate("vector_fp32", 15.7)),
        ("v100-sxm2", "matrix_fp64", Rate("vector_fp64", 7.8)),
        ("mi210", "matrix_tf32", Rate("matrix_fp32", 45.3)),
        ("mi300x", "vector_bf16", Rate("vector_fp32", 163.4)),
        ("a100-40gb", "vector_bf16", Rate("vector_bf16", 39)),
        ("v100-sxm2", "matrix_bf16", None),
        ("a100-40gb", "matrix_fp8", None),
        ("h100-sxm", "vector_fp8", None),
        ("h100-sxm", "", None),
        ("h100-sxm", "memory", None),
    ],
)
def test_rate_is_that_of_the_units_that_do_the_work(key: str, spec: str, rate: Rate | None) -> None:
    assert SHIPPED[key].rate(spec) == rate


def test_ridge_is_rate_over_bandwidth(tmp_path: Path) -> None:
    assert SHIPPED["a100-sxm-80gb"].ridge("matrix_bf16") == pytest.approx(312e12 / 2039e9)
    assert SHIPPED["a100-sxm-80gb"].ridge("matrix_fp8") is None
    (tmp_path / "a.json").write_text('{"max_achievable_tflops": {"matrix_bf16": 1}}')
    assert architecture(tmp_path / "a.json").ridge("matrix_bf16") is None


# -- from a trace


@pytest.mark.parametrize(("name", "units", "gib", "key"), SEEN)
def test_device_is_detected(name: str, units: int, gib: float, key: str) -> None:
    assert key_of([seen(name, units, gib)]) == key
    assert key_of([seen(name, units, gib)] * 8) == key


def test_every_device_can_be_detected_but_for_a_card_that_shows_its_dies() -> None:
    assert {key for *_, key in SEEN} == SHIPPED.keys() - {"mi250x"}


@pytest.mark.parametrize("name", UNKNOWN)
def test_name_that_is_not_known_is_not_guessed(name: str) -> None:
    reason = detect([{**H100, "name": name}])
    assert isinstance(reason, str)
    assert repr(name) in reason


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        (None, "the trace describes no device"),
        ([], "the trace describes no device"),
        (["H100", None], "the trace describes no device"),
        ([{**MI300X, "name": ""}], "the trace does not name its device"),
        ([{**MI300X, "name": None}], "the trace does not name its device"),
        ([H100, A100_40], "the trace describes several different devices: h100-sxm, a100-40gb"),
        ([H100, {**H100, "name": " "}], "the trace does not name its device"),
        (
            [{**MI300X, "numSms": 38, "totalGlobalMem": 24 * GIB}],
            "the device 'AMD Instinct MI300X VF' shows 38 compute units and 24 GiB: it is a part of mi300x, "
            "or another edition",
        ),
        ([{"name": "NVIDIA A100-PG509-200"}], "the device 'NVIDIA A100-PG509-200' may be a100-40gb or a100-sxm-80gb"),
    ],
)
def test_reason_why_there_is_none(properties: list[Any] | None, reason: str) -> None:
    assert detect(properties) == reason


VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.just(10**400), st.just([]))


@given(st.lists(st.fixed_dictionaries({}, optional={"name": st.sampled_from([one[0] for one in SEEN]) | VALUES,
                                                    "numSms": VALUES, "totalGlobalMem": VALUES}) | VALUES))  # fmt: skip
def test_any_properties_give_a_device_or_a_reason(properties: list[Any]) -> None:
    found = detect(properties)
    assert found if isinstance(found, str) else found.key in SHIPPED


@needs_corpus
def test_devices_of_real_traces() -> None:
    found: dict[str, str] = {}
    for path in kineto_traces():
        one = detect(load_core(str(path)).info.metadata.get("deviceProperties"))
        found[trace_id(path)] = one if isinstance(one, str) else one.key
    assert Counter(found.values()) == {
        "v100-sxm2": 9,
        "a100-40gb": 6,
        "mi300x": 8,
        "h100-sxm": 3,
        "a100-sxm-80gb": 1,
        "b200": 1,
        "mi210": 1,
        "the trace describes no device": 4,
        "the trace does not name its device": 2,
        "no architecture is known for the device 'AMD Radeon Graphics'": 1,
    }
    assert found["hta/amd/mi250-minitoy"].endswith("'AMD Radeon Graphics'")
    assert found["hta/critical-path/simple-add"] == "a100-40gb"
    assert found["tracelens/inference/vllm-decode/graph-replay"] == "the trace does not name its device"


# -- tables


def test_table_of_devices() -> None:
    rows = {row["architecture"]: row for row in devices(SHIPPED.values()).records()}
    assert rows.keys() == SHIPPED.keys()
    assert rows["h100-sxm"]["memory_bandwidth_gbps"] == 3352
    assert rows["h100-sxm"]["ridge_fp16"] == pytest.approx(989.4e3 / 3352)
    assert rows["a10"]["matrix_fp8"] is None


def test_page_is_current() -> None:
    check = [sys.executable, "docs/make_architectures.py", "--check"]
    assert subprocess.run(check, cwd=CHECKOUT, capture_output=True, text=True).stdout == ""


# -- profiles of JAX, which name no device


@pytest.mark.parametrize(
    ("units", "gib", "vendor", "keys"),
    [
        (304, 192, "AMD", ["mi300x"]), (256, 288, "AMD", ["mi355x"]), (304, 192, "Nvidia", []),
        (132, 79.2, "Nvidia", ["h100-sxm"]), (108, 79.2, "Nvidia", ["a100-pcie-80gb", "a100-sxm-80gb"]),
        (17, 79.2, "Nvidia", []),
    ],
)  # fmt: skip
def test_device_without_name_is_told_by_its_properties(units: int, gib: float, vendor: str, keys: list[str]) -> None:
    properties = {"vendor": vendor, "numSms": units, "totalGlobalMem": int(gib * GIB)}
    assert [one.key for one in by_properties([properties] * 2)] == keys
    assert by_properties([properties, {**properties, "numSms": 1}]) == []
    found = detect([properties] * 2)
    assert (found if isinstance(found, str) else found.key) == (
        keys[0] if len(keys) == 1
        else "the trace does not name its device, which by its compute units and memory may be a100-pcie-80gb or"
        " a100-sxm-80gb" if keys else "the trace does not name its device"
    )  # fmt: skip
    assert bool(taken_for([properties])) == (len(keys) == 1)


@pytest.mark.parametrize(
    "properties",
    [None, [], ["x"], [H100], [{"vendor": "AMD", "numSms": 256}], [{**MI300X, "name": "", "vendor": "AMD"}]],
)
def test_nothing_is_told_by_less(properties: list[Any] | None) -> None:
    assert by_properties(properties) == []
