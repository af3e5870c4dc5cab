"""export and save: what is written, and that it is read back."""

from __future__ import annotations

import csv
import gzip
import json
import re
from pathlib import Path

from handmade import Run


def test_saved_graph_answers_as_the_trace(run: Run, trace_file: Path, tmp_path: Path) -> None:
    saved = tmp_path / "small.tlg"
    code, out, err = run("save", trace_file, "-o", saved)
    assert (code, err) == (0, "")
    assert out.endswith(": 13 nodes\n")
    for command in (["info"], ["tree", "--labels", "full", "--gpu-time"], ["timeline"], ["attribution"]):
        code, out, err = run(command[0], trace_file, *command[1:])
        assert run(command[0], saved, *command[1:]) == (code, out.replace(f"cut {trace_file}", f"cut {saved}"), err)


def test_exported_nodes_are_those_of_the_trace(run: Run, trace_file: Path, tmp_path: Path) -> None:
    run("export", trace_file, "-o", tmp_path / "x.csv")
    with open(tmp_path / "x-nodes.csv", newline="") as file:
        nodes = list(csv.DictReader(file))
    assert sorted(int(node["uid"]) for node in nodes) == list(range(2, 15))


def test_names_of_files_are_harmless(run: Run, trace_file: Path, tmp_path: Path) -> None:
    odd = tmp_path / "evil\x1b[31m"
    outputs = ["--csv", f"{odd}.csv", *(f"-o{odd}.{kind}" for kind in ("xlsx", "json", "markdown"))]
    said = [
        run("report", trace_file, *outputs),
        run("diff", "--by-name", trace_file, trace_file, "--csv", f"{odd}-compared"),
        run("save", trace_file, "-o", f"{odd}.tlg"),
        run("export", trace_file, "-o", f"{odd}.graphml"),
        run("cut", trace_file, "-o", f"{odd}-cut.json", "--from", "0ms"),
        run("roofline", trace_file, "-o", f"{odd}.html", "--arch", "h100-sxm"),
        run("report", f"{odd}-cut.json", f"{odd}-cut.json", "--csv", f"{odd}-again"),
    ]
    for code, out, err in said:
        assert code == 0, err
        assert "\\x1b[31m" in out + err
        assert "\x1b" not in out + err


def test_several_exports_at_once_are_told_each(run: Run, trace_file: Path, tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("x.graphml", "x.folded", "x.speedscope.json.gz")]
    code, out, err = run("export", trace_file, "-o", places[0], "-o", places[1], "-o", places[2])
    assert (code, err) == (0, "")
    said = [line for line in out.splitlines() if line.startswith("wrote ")]
    assert [re.split(": |, ", line.removeprefix("wrote "))[0] for line in said] == [str(place) for place in places]
    assert "3 stacks, 0.100 ms of GPU time in ns" in said[1]
    assert json.loads(gzip.decompress(places[2].read_bytes()))["name"] == "GPU time of small, rank 3"


def test_standard_output_gets_nothing_but_the_export(run: Run, trace_file: Path, tmp_path: Path) -> None:
    code, out, err = run("export", trace_file, "-f", "folded", "-o", "-", "-o", tmp_path / "x.folded")
    assert (code, err) == (0, "")
    assert sum(int(line.rsplit(" ", 1)[1]) for line in out.splitlines()) == 100_250
    assert (tmp_path / "x.folded").stat().st_size
