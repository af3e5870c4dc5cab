"""Results of several devices, side by side."""

from __future__ import annotations

from pathlib import Path

import pytest
from replay_results import result, written

from tracelens_graph.errors import ResultsError
from tracelens_graph.replay.devices import compared_results


def test_those_that_differ_most_come_first(tmp_path: Path) -> None:
    a = written(tmp_path / "a.json", result("x", 10.0), result("y", 100.0, tflops=2.0), result("x", 5.0, size=9))
    b = written(tmp_path / "b.json", result("x", 9.0), result("x", 15.0, size=9), result("y", 50.0, device="B GPU"))
    table = compared_results(a, b).results
    assert table["op"] == ["y", "x", "x"]
    assert table["input_dims"] == [[[8]], [[9]], [[8]]]
    assert table["device_A_us"] == [100.0, 5.0, 10.0]
    assert table["device_B_us"] == [50.0, 15.0, 9.0]
    assert table["device_B_ratio"] == [0.5, 3.0, 0.9]
    assert table["device_A_tflops"] == [2.0, None, None]
    assert table["fastest"] == ["B", "A", "B"]
    assert list(table.notes) == [
        f"{one} has no roof: no architecture is known for the device {name!r}"
        for one, name in (("A", "A GPU"), ("B", "A GPU; B GPU"))
    ]
    assert table.title == "Results of a (A: A GPU, torch 2.15), b (B: A GPU; B GPU, torch 2.15)"


def test_what_only_one_device_has_is_in_no_sum(tmp_path: Path) -> None:
    failed = {"op": "z", "error": "out of memory"}
    a = written(tmp_path / "a.json", result("x", 1.0), result("q", 1.0), failed)
    b = written(tmp_path / "b.json", result("x", 1.0, largest_size=4), result("q", 1.0), result("q", 2.0))
    table = compared_results(a, b).results
    assert table["op"] == ["q", "x", "x"]
    assert table["device_B_us"] == [2.0, None, 1.0]
    assert table["fastest"] == ["A", "", ""]
    assert list(table.notes)[:3] == [
        "failed in a: 1: z (out of memory)",
        "b: 1 result has the operation and arguments of a later result, which is taken instead",
        "not on all devices, so in no sum: 2: x (2)",
    ]


def test_sums_are_weighted_by_the_calls_of_the_trace(tmp_path: Path) -> None:
    """A trace of 200 us: 3 calls of x of 20 us (30 %), 10 of y of 10 us (50 %), and 20 % that is not replayed."""
    x, y, alone = {"count": 3, "percent": 30.0, "traced_us": 20.0}, {"count": 10, "percent": 50.0, "traced_us": 10.0}, 9
    sides = {"a": (20.0, 10.0), "b": (10.0, 12.0), "c": (40.0, 2.0)}
    files = [
        written(
            tmp_path / f"{name}.json",
            result("x", of_x, **x),
            result("y", of_y, **y),
            *[result("alone", 1.0, alone, count=99)] * (name != "c"),
        )
        for name, (of_x, of_y) in sides.items()
    ]
    devices, rows = compared_results(*files)
    assert devices["device"] == ["A", "B", "C"]
    assert devices["sum_us"] == [160.0, 150.0, 140.0]
    assert devices["ratio"] == pytest.approx([1.0, 150 / 160, 140 / 160])
    assert devices["fastest"] == [0, 1, 1]
    assert devices["fastest_us"] == [0, 30.0, 20.0]
    assert devices["traced_us"] == [160.0] * 3
    assert devices["replayed_percent"] == [80.0] * 3
    assert devices["trace_us"] == pytest.approx([200.0, 187.5, 175.0])
    assert devices["ops"] == [3, 3, 2]
    assert devices["compared"] == [2, 2, 2]
    assert (rows["op"], rows["fastest"]) == (["y", "x", "alone"], ["C", "B", "A B"])
    assert rows["device_C_us"] == [2.0, 40.0, None]


def test_what_the_times_depend_on_stands_beside_them(tmp_path: Path) -> None:
    of_a = {"library": "12.8", "driver": "570.1, 1980 MHz"}, {"library": "12.8", "driver": "570.1, 1000 MHz"}
    a = written(tmp_path / "a.json", *(result("x", 1.0, size, **told) for size, told in enumerate(of_a)))
    b = written(tmp_path / "b.json", result("x", 1.0, 1, library=None, driver="6.12.12"))
    (of_a_row, of_b_row) = compared_results(a, b).devices.records()
    assert [of_a_row[key] for key in ("library", "driver", "clock_mhz")] == ["12.8", "570.1", 1490.0]
    assert [of_b_row[key] for key in ("library", "driver", "clock_mhz")] == ["", "6.12.12", None]


def test_the_roof_is_that_of_each_device(tmp_path: Path) -> None:
    """A product of 2 * 4096^3 operations in bf16; where no model knows an operation there is no roof."""
    signature = {
        "dims": [[4096, 4096]] * 2,
        "types": ["c10::BFloat16"] * 2,
        "strides": [[4096, 1]] * 2,
        "values": ["", ""],
    }
    peaks = {"NVIDIA H100 80GB HBM3": 989.4e6, "AMD Instinct MI300X": 1307.4e6}
    files = [
        written(
            tmp_path / f"{at}.json",
            result("aten::mm", 200.0, signature=signature, device=name),
            result("x", 1.0, device=name),
        )
        for at, name in enumerate(peaks)
    ]
    devices, rows = compared_results(*files)
    least = [2 * 4096**3 / peak for peak in peaks.values()]
    assert devices["roof_us"] == pytest.approx(least, rel=2e-3)
    assert devices["percent_of_roof"] == pytest.approx([us / 2 for us in least], rel=2e-3)
    of_rows = {row["op"]: (row["device_A_percent_of_roof"], row["device_B_percent_of_roof"]) for row in rows.records()}
    assert of_rows["aten::mm"] == pytest.approx(tuple(us / 2 for us in least), rel=2e-3)
    assert of_rows["x"] == (None, None)


def test_sizes_that_the_trace_does_not_have_are_in_no_sum(tmp_path: Path) -> None:
    files = [
        written(tmp_path / f"{us}.json", result("x", us, count=0), result("x", us, 9, count=1)) for us in (2.0, 3.0)
    ]
    devices, rows = compared_results(*files)
    assert devices["sum_us"] == [2.0, 3.0]
    assert sorted(rows["count"]) == [0, 1]


def test_results_of_one_device_are_listed_in_their_order_with_their_rates(tmp_path: Path) -> None:
    file = written(
        tmp_path / "a.json",
        *(
            result("x", us, size, count=0, tflops=us, tbytes_per_s=us / 2)
            for size, us in ((4, 2.0), (1, 8.0), (2, 4.0))
        ),
    )
    devices, rows = compared_results(file)
    assert rows["input_dims"] == [[[4]], [[1]], [[2]]]
    assert (rows["device_A_tflops"], rows["device_A_tbytes_per_s"]) == ([2.0, 8.0, 4.0], [1.0, 4.0, 2.0])
    assert rows.about["device_A_tflops"].heading == "TFLOP/s"
    assert (devices["calls"], devices["traced_us"]) == ([None], [None])
    assert compared_results(file, file).results.about["device_A_tflops"].heading is None


@pytest.mark.parametrize(
    ("settings", "unlike"),
    [
        ([{}, {"cudnn.allow_tf32": True, "cuda.matmul.allow_tf32": False}], None),
        ([{}, {"cuda.matmul.allow_tf32": True}], "cuda.matmul.allow_tf32"),
        ([{"cudnn.allow_tf32": True}, {"cudnn.allow_tf32": False}], "cudnn.allow_tf32"),
        ([{"autocast bfloat16": True}] * 2, None),
        ([{"float32_matmul_precision": "high"}, {}, {}], "float32_matmul_precision"),
    ],
)
def test_other_settings_are_said(settings: list[dict[str, object]], unlike: str | None, tmp_path: Path) -> None:
    """Programs in full write all settings, short ones those that they set."""
    files = [written(tmp_path / f"{at}.json", result("x", 1.0, settings=one)) for at, one in enumerate(settings)]
    said = [note for note in compared_results(*files).results.notes if note.startswith("settings differ")]
    assert said == ([f"settings differ ({unlike}): 1: x"] if unlike else [])


@pytest.mark.parametrize("number", [0, 27])
def test_more_devices_than_there_are_letters_are_refused(number: int, tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=f"one to 26 files of results are compared, not {number}"):
        compared_results(*[written(tmp_path / "a.json", result("x", 1.0))] * number)


def test_kernels(tmp_path: Path) -> None:
    sides = [("k", "k"), ("k", "other"), ("k", "")]
    a = written(tmp_path / "a.json", *(result("x", 1.0, n, kernels=[one]) for n, (one, _) in enumerate(sides)))
    b = written(tmp_path / "b.json", *(result("x", 1.0, n, kernels=[o] if o else []) for n, (_, o) in enumerate(sides)))
    assert compared_results(a, b).results["same_kernels"] == [True, False, None]


def test_sequences_have_no_signature(tmp_path: Path) -> None:
    a = written(tmp_path / "a.json", result("nn.Module: MLP_0", 2.0, signature=None, failed=[], steps=[]))
    b = written(tmp_path / "b.json", result("nn.Module: MLP_0", 3.0, signature=None))
    table = compared_results(a, b).results
    assert (table["op"], table["device_B_ratio"], table["input_dims"]) == (["nn.Module: MLP_0"], [1.5], [[]])


def test_a_result_that_is_none_is_lost_alone(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b.json"
    a.mkdir()
    (a / "1.json").write_text("{")
    written(a / "2.json", result("x", 1.0), {"op": 3}, {"op": "y"})
    written(b, result("x", 2.0))
    table = compared_results(a, b).results
    assert table["device_B_ratio"] == [2.0]
    note = table.notes[0]
    assert note.startswith(f"cannot be read: {a / '1.json'}: is no JSON")
    assert note.endswith(", and 2 more")


def test_long_names_are_shortened(tmp_path: Path) -> None:
    a = written(tmp_path / "a.json", result("x" * 9999, 1.0), {"op": "y", "error": "z" * 9999})
    b = written(tmp_path / "b.json", result("x", 1.0))
    assert max(map(len, compared_results(a, b).results.notes)) < 300


def test_equal_devices_are_both_the_fastest(tmp_path: Path) -> None:
    files = [written(tmp_path / f"{at}.json", result("x", us, count=3)) for at, us in enumerate((5.0, 4.0, 4.0))]
    devices, rows = compared_results(*files)
    assert (rows["fastest"], devices["fastest"], devices["fastest_us"]) == (["B C"], [0, 1, 1], [0.0, 12.0, 12.0])


def test_results_that_equal_the_trace_give_its_total(tmp_path: Path) -> None:
    """Of 200 us, an operation has 110 with another one of 50 within it, and its median times calls is no sum."""
    outer = result("x", 30.0, count=3, percent=55.0, traced_us=30.0, total_us=110.0)
    inner = result("y", 10.0, count=5, percent=25.0, traced_us=10.0, total_us=50.0)
    a, b = (written(tmp_path / name, outer, inner) for name in ("a.json", "b.json"))
    assert list(compared_results(a, b).devices["trace_us"]) == pytest.approx([200, 200])


def test_several_traces_have_sums_of_their_own(tmp_path: Path) -> None:
    """Shares of different traces are not added: 70 % of one and 60 % of another are not 130 %."""
    of_one = {"trace": "one.json", "percent": 70.0, "count": 2, "traced_us": 7.0, "total_us": 14.0}
    of_other = {"trace": "other.json", "percent": 60.0, "count": 3, "traced_us": 6.0, "total_us": 18.0}
    alone = result("z", 1.0, trace="third.json")
    files = [
        written(tmp_path / f"{at}.json", result("x", us, **of_one), result("x", 2 * us, **of_other), *more)
        for at, (us, more) in enumerate(((7.0, [alone]), (3.5, [])))
    ]
    devices, rows = compared_results(*files)
    shown = ("trace", "device", "sum_us", "replayed_percent")
    assert [tuple(row[key] for key in shown) for row in devices.records()] == [
        ("other.json", "A", 42.0, 60.0), ("other.json", "B", 21.0, 60.0),
        ("one.json", "A", 14.0, 70.0), ("one.json", "B", 7.0, 70.0),
    ]  # fmt: skip
    assert devices["trace_us"] == pytest.approx([70.0, 35.0, 20.0, 10.0])
    assert list(devices.notes) == ["no sum of third.json: no operation was measured on all devices"]
    assert list(zip(rows["trace"], rows["count"], strict=True)) == [
        ("other.json", 3), ("one.json", 2), ("third.json", 1),
    ]  # fmt: skip


def test_traces_of_one_file_name_are_told_apart_by_their_gpu_time(tmp_path: Path) -> None:
    """20 us are 50 % of one `rank0.json`, and 25 % of another."""
    of_one, of_other = ({"trace": "rank0.json", "percent": percent, "total_us": 20.0} for percent in (50.0, 25.0))
    both = written(tmp_path / "both.json", result("x", 1.0, **of_one), result("x", 2.0, **of_other))
    one = written(tmp_path / "one.json", result("x", 3.0, **of_one))
    devices, rows = compared_results(both, one)
    assert (list(devices["replayed_percent"]), list(devices["sum_us"])) == ([50.0, 50.0], [1.0, 3.0])
    assert set(rows["trace"]) == {"rank0.json (0.04 ms)", "rank0.json (0.08 ms)"}


def test_one_trace_on_each_device_is_compared_by_arguments(tmp_path: Path) -> None:
    a, b = (written(tmp_path / f"{one}.json", result("x", 1.0, trace=one)) for one in ("one", "other"))
    devices, rows = compared_results(a, b)
    assert (devices["compared"], rows["device_B_ratio"]) == ([1, 1], [1.0])


def test_without_a_common_operation_there_is_no_sum(tmp_path: Path) -> None:
    a, b = (written(tmp_path / f"{one}.json", result(one, 1.0)) for one in ("x", "y"))
    devices, _ = compared_results(a, b)
    assert devices["sum_us"] == [None, None]
    assert list(devices.notes) == ["no sum: no operation was measured on all devices"]


def test_attention_has_the_roof_of_what_its_kernels_compute(tmp_path: Path) -> None:
    """4 * 16 * 16 * 512^2 * 64 operations of H100's 989.4 TFLOP/s, half of them where it is causal."""
    shape = [16, 16, 512, 64]
    signature = {
        "dims": [shape] * 3 + [[]] * 5,
        "types": ["c10::BFloat16"] * 3 + ["", "Scalar", "Scalar", "Scalar", "Scalar"],
        "strides": [[524288, 32768, 64, 1]] * 3 + [[]] * 5,
        "values": ["", "", "", "", "0.", "False", "0.125", "False"],
    }
    one = result("aten::scaled_dot_product_attention", 100.0, signature=signature, device="NVIDIA H100 80GB HBM3")
    a, b = (written(tmp_path / name, one) for name in ("a.json", "b.json"))
    assert compared_results(a, b).devices["roof_us"][0] == pytest.approx(4 * 256 * 512**2 * 64 / 989.4e6, rel=0.35)
