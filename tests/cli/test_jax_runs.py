"""Profiles of JAX on the command line: folders, devices as ranks, and runs beside PyTorch's."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest
from handmade import Run

from corpus import CHECKOUT
from tracelens_graph.cli.traces import names_of
from tracelens_graph.simulate.__main__ import main as simulate
from tracelens_graph.simulate.xla.__main__ import main as simulate_xla

RUN = "plugins/profile/2025_07_01_23_00_36"
FOUR_DEVICES = CHECKOUT / "examples/traces/four-devices-jax-cpu.xplane.pb.gz"


@pytest.fixture(scope="module")
def jax_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jax")
    assert simulate_xla([str(folder), "--devices", "2"]) == 0
    return folder


@pytest.fixture(scope="module")
def torch_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("torch")
    simulate([str(folder), "--steps", "2", "--traces-only"])
    return folder / "rank0.json.gz"


def test_devices_are_ranks(run: Run, jax_run: Path) -> None:
    code, out, err = run("ranks", FOUR_DEVICES)
    assert (code, err) == (0, "ranks: the 4 devices in 1 profile of JAX\n")
    assert out.startswith("4 ranks on 1 host, 3 steps each, 33 collectives that ranks share\n")
    code, out, err = run("ranks", jax_run)
    assert (code, err) == (0, "ranks: the 2 devices in 1 profile of JAX\n")
    assert "allreduce      2" in out


def test_one_device_is_no_job(run: Run, tmp_path: Path) -> None:
    assert simulate_xla([str(tmp_path)]) == 0
    code, _, err = run("ranks", tmp_path)
    assert code != 0
    assert "one trace alone" in err


def test_hosts_of_a_run_are_ranks_together(run: Run, jax_run: Path, tmp_path: Path) -> None:
    (profile,) = jax_run.rglob("*.xplane.pb")
    for name in ("a", "b"):
        shutil.copy(profile, tmp_path / f"{name}.xplane.pb")
    code, out, err = run("ranks", tmp_path)
    assert (code, err) == (0, "ranks: the 4 devices in 2 profiles of JAX\n")
    assert out.startswith("4 ranks on 2 hosts")
    code, _, err = run("info", tmp_path)
    assert code != 0
    assert "is a folder" in err


def test_a_report_on_hosts_takes_devices_for_ranks(run: Run, jax_run: Path, tmp_path: Path) -> None:
    (profile,) = jax_run.rglob("*.xplane.pb")
    for name in ("a", "b"):
        shutil.copy(profile, tmp_path / f"{name}.xplane.pb")
    why = "how far the clock of a host is from those of others is not known"
    assert why in " ".join(run("ranks", tmp_path)[1].split())
    code, out, _ = run("report", tmp_path)
    assert code == 0
    assert why in " ".join(out.split())
    assert "ranks are missing" not in out
    (tmp_path / "b.xplane.pb").unlink()
    assert "rank is" not in run("report", tmp_path)[1]  # one profile alone
    assert run("report", tmp_path / "a.xplane.pb", tmp_path / "a.xplane.pb", "--device", "1")[0] == 0


def test_a_folder_stands_for_its_profile(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "plugins/profile/2026_01_01_00_00_00"
    folder.mkdir(parents=True)
    (folder / "host.xplane.pb").write_bytes(gzip.decompress(FOUR_DEVICES.read_bytes()))
    (folder / "host.trace.json.gz").write_bytes(b"")
    code, out, err = run("info", tmp_path)
    assert code == 0
    assert "host.xplane.pb" in "".join(out.split())
    assert err == ("left out host.trace.json.gz: JAX's copy for a viewer; the .xplane.pb holds all that was recorded\n")


def test_jax_beside_pytorch(run: Run, jax_run: Path, torch_run: Path) -> None:
    code, out, _ = run("diff", "--by-name", torch_run, jax_run, "--names", "torch,jax", "--top", "0")
    assert code == 0
    titles = [line for line in out.splitlines() if line.endswith("jax against torch")]
    assert titles == [
        "jax against torch", "GPU timeline: jax against torch", "GPU time by family and sizes: jax against torch",
    ]  # fmt: skip
    shared = [line for line in out.splitlines() if line.startswith("GEMM") and "torch" not in line]
    assert any("16384 x 4096 x 1024" in line and "jax" not in line for line in shared)
    attention = [line for line in out.splitlines() if line.startswith("Flash Attention")]
    assert ["8 x 16 x 512 x 512 x" in line for line in attention] == [True, True]
    assert not any("torch" in line or "jax" in line for line in attention)
    (profile,) = jax_run.rglob("*.xplane.pb")
    code, out, _ = run("diff", torch_run, profile)
    assert code == 0
    assert "--by-name joins what both compute" in " ".join(out.split())


@pytest.mark.parametrize(
    ("runs", "names"),
    [
        ([f"jax-run/{RUN}/host.xplane.pb", f"jax-run2/{RUN}/host.xplane.pb"], ["jax-run", "jax-run2"]),
        # Two runs of one folder are told apart by their times.
        (
            [f"p/{RUN}/host.xplane.pb", "p/plugins/profile/2026_01_01_00_00_00/host.xplane.pb"],
            ["2025_07_01_23_00_36", "2026_01_01_00_00_00"],
        ),
        (["a/rank0.json", "b/rank0.json"], ["a", "b"]),
        ([f"p/{RUN}/a.xplane.pb", f"q/{RUN}/b.xplane.pb"], ["a", "b"]),
    ],
)
def test_the_shortest_that_tells(runs: list[str], names: list[str]) -> None:
    assert names_of(runs) == names
