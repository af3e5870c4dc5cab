"""The command roofline: what it prints and writes, and what it asks for."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from handmade import Run

from tracelens_graph.simulate import simulate, write


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated training run on a device that is known."""
    folder = tmp_path_factory.mktemp("job")
    write(simulate(ranks=1, steps=2, layers=1), folder)
    return folder / "rank0.json.gz"


def test_prints_the_parts(run: Run, trained: Path) -> None:
    code, out, err = run("roofline", trained)
    assert (code, err) == (0, "")
    assert out.startswith("Time under the roofline of NVIDIA H100 SXM5\n")
    for part in ("compute_bound", "memory_bound", "unmodelled", "communication", "launch_bound", "other_idle"):
        assert f"\n{part} " in out


def test_draws(run: Run, trained: Path, tmp_path: Path) -> None:
    page = tmp_path / "roofline.html"
    code, out, err = run("roofline", trained, "-o", page)
    assert (code, err) == (0, "")
    assert out.endswith(f"wrote {page}\n")
    text = page.read_text()
    assert "<title>Roofline of rank0.json.gz on NVIDIA H100 SXM5</title>" in text
    assert len(text) < 300_000


def test_for_programs(run: Run, trained: Path, tmp_path: Path) -> None:
    code, out, err = run("roofline", trained, "--format", "csv")
    assert (code, err) == (0, "")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert sum(float(row["percent"]) for row in rows) == pytest.approx(100)
    code, out, err = run("roofline", trained, "--format", "csv", "-o", tmp_path / "r.html")
    assert (code, out) == (2, "")
    assert "r.html: -f says csv; name a file .csv" in err


def test_draws_pictures_and_never_a_page_under_their_suffix(run: Run, trained: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for suffix, begin in (("png", b"\x89PNG\r\n"), ("svg", b"<?xml"), ("PNG", b"\x89PNG\r\n")):
        picture = tmp_path / f"r.{suffix}"
        code, out, err = run("roofline", trained, "-o", picture)
        assert (code, err) == (0, "")
        assert out.endswith(f"wrote {picture}\n")
        content = picture.read_bytes()
        assert content.startswith(begin)
        assert len(content) > 10_000
        assert b"<html" not in content
    text = (tmp_path / "r.svg").read_text()
    assert ">Roofline of rank0.json.gz on NVIDIA H100 SXM5<" in text
    assert "GEMM (" in text
    assert run("roofline", trained, "-o", tmp_path / "r.txt")[0] == 0
    assert (tmp_path / "r.txt").read_text().startswith("Time under the roofline of NVIDIA H100 SXM5")
    for name in ("r.pdf", "r"):
        code, out, err = run("roofline", trained, "-o", tmp_path / name)
        assert (code, out) == (2, "")
        assert "name a file .html, .png, .svg" in err
        assert not (tmp_path / name).exists()


def test_names_what_is_far_below_the_roof(run: Run, trained: Path) -> None:
    _, out, _ = run("roofline", trained, "--top", "3")
    block = out.partition("Operations below the roof, by what could be won\n")[2].splitlines()
    assert block[0].split()[:2] == ["op", "shapes"]
    rule = next(at for at, line in enumerate(block) if line.startswith("---"))
    assert "--top 0 shows all" in " ".join(block[rule + 4 :]), "three operations, and how many more there are"
    code, out, _ = run("roofline", trained, "--table", "below_roof", "-f", "csv")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    won = [float(row["could_be_won_ms"]) for row in rows]
    assert won == sorted(won, reverse=True)
    assert all(0 < more < float(row["time_ms"]) for more, row in zip(won, rows, strict=True))
    _, out, _ = run("roofline", trained, "-f", "csv")
    parts = {row["part"]: float(row["could_be_won_ms"] or 0) for row in csv.DictReader(io.StringIO(out))}
    # The parts round each call, and calls at the roof cannot lose.
    roofed = sum(parts[part] for part in ("compute_bound", "memory_bound", "memory_only"))
    assert sum(won) == pytest.approx(roofed, rel=0.02)


def test_of_a_step(run: Run, trained: Path) -> None:
    _, out, _ = run("roofline", trained, "--step", "3", "--format", "csv")
    _, whole, _ = run("roofline", trained, "--format", "csv")
    time, total = ({row["part"]: float(row["time_ms"]) for row in csv.DictReader(io.StringIO(t))} for t in (out, whole))
    assert 0 < time["compute_bound"] < total["compute_bound"]


def test_a_device_of_ones_own(run: Run, trace_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"name": "Mine", "mem_bw_gbps": 1000, "max_achievable_tflops": {"matrix_bf16": 100}}))
    code, out, _ = run("roofline", trace_file, "--arch", file)
    assert code == 0
    assert out.startswith("Time under the roofline of Mine\n")


def test_without_a_known_device(run: Run, trace_file: Path, tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    code, out, err = run("roofline", trace_file, "-o", page)
    assert (code, out) == (1, "")
    assert err.startswith("error: no roofline: no architecture is known for the device 'GPU of tests'; name a device")
    assert "tracelens-graph model architectures" in err
    assert not page.exists()


def test_a_profile_of_jax_names_no_device(run: Run, tmp_path: Path) -> None:
    from tracelens_graph.simulate.xla.__main__ import main

    assert main([str(tmp_path / "jax")]) == 0
    run("report")  # takes what the simulator printed
    code, out, err = run("roofline", tmp_path / "jax")
    assert (code, err.count("\n")) == (0, 1)
    assert err.startswith("taken for NVIDIA H100 SXM5 by its compute units and memory; --arch names another device")
    assert "memory_only could win most in reduce_fusion" in " ".join(out.split())
    _, _, err = run("roofline", tmp_path / "jax", "--arch", "h100-sxm")
    assert err == ""
