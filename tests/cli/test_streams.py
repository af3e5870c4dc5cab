"""Traces from pipes: every command that takes traces reads them once, whatever they are packed in."""

from __future__ import annotations

import gzip
import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate, write
from tracelens_graph.stores.graph_file import write_graph

pytestmark = [
    pytest.mark.proof,  # every packing and pipe, with every command
    pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="no process substitution"),
]

PROGRAM = f"{shlex.quote(sys.executable)} -m tracelens_graph"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks in every packing: a.json, a.gz, a.zst, a.zip, a.tlg, b..."""
    folder = tmp_path_factory.mktemp("job")
    zstandard = pytest.importorskip("zstandard")
    for name, path in zip("ab", write(simulate(ranks=2, steps=2, layers=1), folder), strict=True):
        packed = path.rename(folder / f"{name}.gz")
        plain = gzip.decompress(packed.read_bytes())
        (folder / f"{name}.json").write_bytes(plain)
        (folder / f"{name}.zst").write_bytes(zstandard.compress(plain))
        with zipfile.ZipFile(folder / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("trace.json", plain)
        write_graph(load_core(packed), folder / f"{name}.tlg")
    return folder


def shell(command: str, job: Path, temporary: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ, "TMPDIR": str(temporary), "TRACELENS_GRAPH_CACHE": str(temporary / "cache"), "COLUMNS": "200",
    }  # fmt: skip
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=environment, cwd=job, timeout=120, check=False
    )


@pytest.mark.parametrize("packing", ["json", "gz", "zst", "zip", "tlg"])
@pytest.mark.parametrize("how", ["-", "/dev/stdin", "<(cat {})"])
def test_every_packing_comes_through_a_pipe(job: Path, tmp_path: Path, packing: str, how: str) -> None:
    usual = shell(f"{PROGRAM} attribution a.{packing} --format csv", job, tmp_path)
    words = f"{PROGRAM} attribution {how.format(f'a.{packing}')} --format csv"
    found = shell(words if "cat" in how else f"cat a.{packing} | {words}", job, tmp_path)
    assert (found.returncode, found.stdout, found.stderr) == (0, usual.stdout, "")
    assert usual.stdout.count("\n") > 10
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words",
    [
        "report {} --no-models --table ops_summary --format csv", "report {} --cache --table ops_summary --format csv",
        "tree {} --labels full", "timeline {}", "timeline {} --cache", "modules {} --format csv",
        "roofline {} --arch h100-sxm --format csv", "ask idle_gaps {} --format csv", "cut {} --uid 40 -o -",
        "export {} --format graphml -o -",
    ],
)  # fmt: skip
def test_every_command_on_one_trace_takes_a_pipe(job: Path, tmp_path: Path, words: str) -> None:
    usual = shell(f"{PROGRAM} {words.format('b.gz')}", job, tmp_path)
    piped = shell(f"{PROGRAM} {words.format('<(cat b.gz)')}", job, tmp_path)
    assert piped.returncode == usual.returncode == 0
    assert piped.stderr == usual.stderr
    assert piped.stdout.replace("cut TRACE", "cut b.gz") == usual.stdout


@pytest.mark.parametrize(
    "words",
    [
        "diff --by-name {} {} --names a,b --table ops_summary --format csv",
        "diff --by-name {} {} --names a,b --cache --table ops_summary --format csv",
        "ask slowest_ranks {} {} --format csv",
        "report {} {} --no-models",
    ],
)
def test_several_traces_come_through_pipes(job: Path, tmp_path: Path, words: str) -> None:
    usual = shell(f"{PROGRAM} {words.format('a.gz', 'b.gz')}", job, tmp_path)
    assert usual.returncode == 0
    for first, second in (("<(cat a.gz)", "<(gunzip -c b.gz)"), ("-", "<(cat b.tlg)"), ("a.json", "<(cat b.zst)")):
        found = shell(f"cat a.gz | {PROGRAM} {words.format(first, second)}", job, tmp_path)
        assert (found.returncode, found.stderr) == (0, usual.stderr)
        lines = [line for line in found.stdout.splitlines() if not line.startswith("TRACE in commands")]
        assert len(lines) == len(usual.stdout.splitlines())
        if words.startswith("diff"):
            assert found.stdout == usual.stdout


def test_tables_and_imports_are_written_from_pipes(job: Path, tmp_path: Path) -> None:
    found = shell(f"{PROGRAM} db export {tmp_path / 'db'} <(cat a.gz) <(cat b.gz)", job, tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    found = shell(f"{PROGRAM} save <(cat a.gz) -o {tmp_path / 'a.tlg'}", job, tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    found = shell(f"{PROGRAM} report <(cat a.gz) <(cat b.gz) --no-models --csv {tmp_path / 't'}", job, tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    assert len(list((tmp_path / "t").iterdir())) == 2


def test_hints_do_not_name_a_pipe_that_is_read_up(job: Path, tmp_path: Path) -> None:
    for words in ("report <(cat a.gz) --no-models", "report - --no-models < a.gz", "attribution <(cat a.gz)"):
        found = shell(f"{PROGRAM} {words}", job, tmp_path)
        assert "tracelens-graph cut TRACE --uid" in found.stdout
        assert "/dev/fd" not in found.stdout
        assert ("TRACE in commands below stands" in found.stdout) == words.startswith("report")
    found = shell(f"{PROGRAM} report <(cat a.gz) --no-models", job, tmp_path)
    first, second = found.stdout.splitlines()[:2]
    assert second.startswith("pipe, rank 0 of 2")
    assert first.endswith(": tracelens-graph save - -o x.tlg")
    found = shell(f"{PROGRAM} diff --by-name a.gz <(cat b.gz)", job, tmp_path)
    assert found.stdout.startswith("pipe against a\n")
    assert "TRACE in commands" not in shell(f"{PROGRAM} report a.gz --no-models", job, tmp_path).stdout


def test_a_reader_that_has_seen_enough_ends_the_program_quietly(job: Path, tmp_path: Path) -> None:
    for words in ("tree {} --labels full", "report {} --all", "export {} --format graphml -o -"):
        found = shell(f"{PROGRAM} {words.format('<(cat a.gz)')} | head -c 1", job, tmp_path)
        assert (found.returncode, found.stderr) == (0, "")


def test_a_spool_leaves_nothing_when_the_program_is_killed(job: Path, tmp_path: Path) -> None:
    script = """
import os, signal, sys
from tracelens_graph.loaders.sources import open_source
source = open_source("-")
with source.open() as stream:
    assert stream.read(1) == b"{"
os.kill(os.getpid(), signal.SIGKILL)
"""
    found = shell(f"cat a.gz | {shlex.join([sys.executable, '-c', script])}", job, tmp_path)
    assert found.returncode == 128 + 9
    assert not list(tmp_path.iterdir())


def test_a_spool_without_room_is_one_line(job: Path, tmp_path: Path) -> None:
    found = shell(f"ulimit -f 8; cat a.json | {PROGRAM} info -", job, tmp_path)
    assert found.returncode == 1
    assert found.stderr == f"error: <stdin>: cannot be kept in {tmp_path}: file too large\n"
