"""Nothing of the user's is lost: every output of every command, found in the program itself."""

from __future__ import annotations

import gzip
import inspect
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from all_commands import commands as all_commands
from handmade import Run
from mm_pair import node

import tracelens_graph
from tracelens_graph.cli.options import Written
from tracelens_graph.cli.outputs import FORMATS, PICTURES, Writes
from tracelens_graph.errors import OutputError
from tracelens_graph.output.files import Protection, check_outputs, protecting, replacing
from tracelens_graph.reports.document import BRIEF
from tracelens_graph.simulate import simulate, write

PROGRAM = [sys.executable, "-c", "from tracelens_graph.cli import main; main()"]


class Output(NamedTuple):
    """How a command is made to write to a place.

    Attributes:
        words: the command; TRACE, OTHER (another trace), ET (the execution trace) and PLACE stand for paths.
        name: name of the file, or folder, for the place.
        files: what is written into a folder; empty where the place is a file.
    """

    words: str
    name: str
    files: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """What the command says on standard error: the small trace is of rank 3 of 8."""
        ranks = "ranks 0, 1, 2, 4, 5, 6, 7 are missing: the job has 8\nrank 3 is there more than once\n"
        said = {"ranks": ranks, "chakra": "note: GPU events that lead to no op and are left out: 1\n"}
        return next((text for word, text in said.items() if word in self.words.split()), "")


WORDS = {
    "report": "report TRACE", "tree": "tree TRACE", "info": "info TRACE", "modules": "modules TRACE",
    "ask": "ask idle_gaps TRACE", "explain": "explain TRACE headline",
    "roofline": "roofline TRACE --arch h100-sxm", "diff": "diff TRACE TRACE", "ranks": "ranks TRACE OTHER",
    "link": "link TRACE --et ET", "cut": "cut TRACE --uid 9",
    "export": "export TRACE", "save": "save TRACE", "db queries": "db queries",
}  # fmt: skip
"""Command -> how it is asked for something to write; those that need a database are elsewhere."""

NEEDED = {("report", "csv"): "--table ops_summary", ("info", "csv"): "--table nodes", ("diff", "csv"): "--points"}
"""What else a format of a command takes."""

FOLDERS = [
    Output("report TRACE --csv PLACE", "tables", ("gpu_timeline.csv", "ops_summary.csv")),
    Output("diff --by-name TRACE TRACE --names a,b --csv PLACE", "diff", ("gpu_timeline.csv",)),
    Output("diff TRACE TRACE --csv PLACE", "structure", ("diff_totals.csv", "diff_places.csv")),
    Output("link TRACE --et ET --csv PLACE", "link", ("link_counts.csv", "link_ops.csv")),
    Output("ranks TRACE OTHER --csv PLACE", "ranks", ("rank_times.csv", "rank_balance.csv")),
    Output("export TRACE -f parquet -o PLACE", "p", ("nodes.parquet", "edges.parquet")),
    Output("export TRACE -f csv -o PLACE", "c", ("nodes.csv", "edges.csv")),
    Output("db queries --save PLACE", "browser", ("queries.zip", "tracelens.grass")),
]
FILES = [
    Output("report TRACE -o PLACE", "r.json"),
    Output("report TRACE -o PLACE", "r.xlsx"),
    Output("diff TRACE TRACE -o PLACE", "d.md"),
    Output("timeline TRACE -o PLACE", "t.json"),
    Output("roofline TRACE --arch h100-sxm -o PLACE", "r.png"),
    Output("link TRACE --et ET -f chakra -o PLACE", "c.json"),
    Output("cut TRACE --uid 9 -o PLACE", "piece.json.gz"),
    Output("export TRACE -o PLACE", "g.graphml"),
    Output("export TRACE -o PLACE", "stacks.folded"),
    Output("save TRACE -o PLACE", "g.tlg"),
]
"""Of each way to write a file one: text, bytes, a stream, packed, and those that write it themselves."""


def writes_of(command: Callable[..., Any]) -> Writes | None:
    """What a command writes."""
    parameters = inspect.signature(getattr(command, "__wrapped__", command), eval_str=True).parameters
    marks = [mark for one in parameters.values() for mark in getattr(one.annotation, "__metadata__", ())]
    return next((mark for mark in marks if isinstance(mark, Writes)), None)


EVERY = [
    (name, form)
    for name, command in all_commands()
    if name in WORDS and (found := writes_of(command))
    for form in found.formats
]
"""All commands with each of their formats."""


def named(output: Output) -> str:
    return f"{output.words.split()[0]} {output.name}"


@pytest.fixture
def ask(run: Run, trace: Path, other_rank: Path, execution_trace: Path) -> Callable[..., tuple[int, str, str]]:
    """Runs a command with its output at a place."""

    def call(output: Output, place: object, *more: str, of: Path = trace) -> tuple[int, str, str]:
        if "r.png" in output.name or "r.svg" in output.name:
            pytest.importorskip("matplotlib")
        words = {"TRACE": of, "OTHER": other_rank, "ET": execution_trace, "PLACE": place}
        return run(*(words.get(word, word) for word in output.words.split()), *more)

    return call


@pytest.fixture
def other_rank(tmp_path: Path, trace_file: Path) -> Path:
    """A trace beside the other one, in a folder of its own."""
    folder = tmp_path / "others"
    folder.mkdir()
    return Path(shutil.copy(trace_file, folder / "other.json"))


@pytest.fixture
def execution_trace(other_rank: Path) -> Path:
    """The execution trace of the trace, in the same folder as the other one."""
    ops = {1: "aten::linear", 2: "aten::addmm", 3: "aten::empty"}
    nodes = [node(number + 2, 2 if number != 2 else 3, name, number, 0) for number, name in ops.items()]
    process, thread = (f"[pytorch|profiler|execution_trace|{kind}]" for kind in ("process", "thread"))
    nodes += [node(2, 1, thread, 0, 7), node(1, 1, process, 0, 7, tid=0)]
    place = other_rank.parent / "et.json"
    place.write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "pid": 100, "nodes": nodes}))
    return place


@pytest.fixture
def trace(tmp_path: Path, trace_file: Path) -> Path:
    folder = tmp_path / "traces"
    folder.mkdir()
    return Path(shutil.copy(trace_file, folder / "trace.json"))


# --- no output is forgotten ------------------------------------------------------------------------------------------


def test_every_path_of_every_command_is_known() -> None:
    folders, unmarked, unknown = set(), set(), set()
    for name, command in all_commands():
        if writes_of(command) and name not in WORDS:
            unknown.add(name)
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            if any(isinstance(mark, Written) for mark in getattr(parameter.annotation, "__metadata__", ())):
                folders.add((name, parameter.name))
            elif "Path" in str(parameter.annotation):
                unmarked.add((name, parameter.name))
    # They need a statement, a database, recorded arguments, tensors or a server: test_cypher.py, test_db_*.py,
    # test_replay.py, test_split.py.
    assert unknown == {"cypher", "db list", "db query", "db pull", "replay", "tensor"}
    assert folders == {("replay", "output"), ("split", "folder"), ("db export", "folder"), ("db queries", "save")}
    # The folder of the local server is its own; the others are read.
    servers = {("db start", "folder"), ("db stop", "folder"), ("db import", "folder")}
    reads = {
        ("mcp", "folders"),
        ("db push-diff", "first"),
        ("db push-diff", "second"),
        ("db import", "files"),
        ("replay", "kernel_source"),
    }
    assert unmarked == servers | reads


@pytest.mark.parametrize(("command", "form"), EVERY)
def test_every_format_of_every_command(
    ask: Callable[..., tuple[int, str, str]], tmp_path: Path, command: str, form: str
) -> None:
    """A file is written, and standard output gets the same where one file is all there is."""
    if form in PICTURES:
        pytest.importorskip("matplotlib")
    meant = [one for one in formats_of(command) if FORMATS[form][1] in FORMATS[one]]
    words = f"{words_of(command, form)} {'' if meant[0] == form else f'-f {form}'} -o PLACE"
    place = tmp_path / f"x{FORMATS[form][1]}"
    code, out, err = ask(Output(words, place.name), place)
    assert code == 0, err
    assert out.startswith("wrote ")
    if (command, form) in {("export", "csv"), ("export", "parquet")}:
        assert {path.name for path in tmp_path.glob("x-*")} == {f"x-{part}.{form}" for part in ("nodes", "edges")}
        return
    assert place.stat().st_size
    if len(forms := formats_of(command)) == 1 or form in {"xlsx", "png", "graphml.gz"}:
        return  # nothing but files, or one that holds a time
    code, out, err = ask(Output(f"{words_of(command, form)} -f {form}", place.name), place)
    assert (code, forms) == (0, forms), err
    if form == "json" and place.stat().st_size > BRIEF:
        assert len(out) <= BRIEF
        assert json.loads(out)["cut_short"].endswith(" gives all")
    else:
        assert out.encode() == place.read_bytes()


def test_every_command_that_answers_prints_json_and_writes_files() -> None:
    """The one rule: `-o FILE` by its suffix, `-f json` to standard output."""
    acts = {"split", "skill", "mcp", "db start", "db stop", "db check", "db push", "db push-diff", "db upgrade",
            "db export", "db import", "db drop", "db forget-events", "db demo"}  # fmt: skip
    write_a_trace = {"cut", "save", "export", "db pull"}
    for name, command in all_commands():
        found = writes_of(command)
        assert (found is None) == (name in acts), name
        if found is not None and name not in write_a_trace:
            assert {"csv", "json", "md", "xlsx"} <= set(found.formats), name
            options = {option.name for option in found.parameters()}
            assert {"output", "format"} <= options or name == "replay", "which writes programs"


def formats_of(command: str) -> tuple[str, ...]:
    found = writes_of(dict(all_commands())[command])
    assert found is not None
    return found.formats


def words_of(command: str, form: str) -> str:
    return f"{WORDS[command]} {NEEDED.get((command, form), '')}"


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("x.json", b'{"generator":'), ("x.json.gz", b"\x1f\x8b"), ("x.speedscope.json", b'{"exporter":'),
        ("X.FOLDED", b"("), ("x.graphml.gz", b"\x1f\x8b"),
    ],
)  # fmt: skip
def test_the_longest_ending_says_the_format(run: Run, trace: Path, tmp_path: Path, name: str, begins: bytes) -> None:
    assert run("export", trace, "-o", tmp_path / name)[0] == 0
    assert (tmp_path / name).read_bytes().startswith(begins)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["r.foo"], "r.foo: its name says no format; name a file .html, .md, .json, .xlsx, .csv"),
        ([""], "the name is empty"),
        (["--all"], "--all looks like an option"),
    ],
)
def test_outputs_that_no_suffix_can_say_are_refused(run: Run, trace: Path, names: list[str], says: str) -> None:
    code, out, err = run("report", trace, *(word for name in names for word in ("-o", name)))
    assert (code, out) == (2, "")
    assert says in err


def test_nothing_else_opens_files_to_write() -> None:
    package = Path(tracelens_graph.__file__).parent
    opening = r"""open\([^)]*["'][wxa]b?["']|\.write_(?:text|bytes)\(|savefig\((?!file|drawn)"""
    allowed = {
        "output/files.py",  # the one that does
        "output/folder.py",  # into a temporary folder
        "cli/ending.py",  # the null device, in place of a closed stream
        "simulate/__init__.py",  # for tests and examples, called from Python
        "simulate/emit.py",  # so are its traces
        "simulate/xla/__init__.py",  # so are its profiles
        "simulate/serving/__init__.py",  # and its servers
        "db/server/jars.py",  # into a folder of its own
        "stores/export.py",  # packs into the file that it is given
        "loaders/kineto/loader.py",  # pipes between processes
        "db/server/offline.py",  # the server's own folder
        "db/server/process.py",  # what a server prints, in its folder
        "replay/verify/verify.py",  # a copy in a temporary folder
        "replay/short_program.py",  # what its programs write, where the user says
        "loading/fused.py",  # a copy in a temporary folder
        "embedded/store.py",  # what is in a stored graph, into a temporary folder
        "compat/EventReplay/batched_replay.py",  # a program that is written as one file, where Python code says
    }
    import re

    # Symbolic links are not followed, so what stands beside the package in a checkout is searched by itself.
    every = {path for folder in (package, package / "loaders", package / "cypher") for path in folder.rglob("*.py")}
    found = {
        path.relative_to(package).as_posix()
        for path in every
        if re.search(opening, path.read_bytes().decode("latin-1"))
    }
    assert {file for file in found if not file.startswith("replay/program/")} <= allowed


# --- what is refused, and what is not --------------------------------------------------------------------------------


@pytest.mark.parametrize("output", FILES, ids=named)
def test_an_input_is_never_overwritten(ask: Any, output: Output, tmp_path: Path, trace: Path) -> None:
    before = trace.read_bytes()
    links = {name: tmp_path / f"{name}-{output.name}" for name in ("same", "hard", "soft", "dots")}
    os.link(trace, links["hard"])
    links["soft"].symlink_to(trace)
    links["same"] = trace.with_name(output.name)
    trace.rename(links["same"])
    trace.symlink_to(links["same"])
    links["dots"] = links["same"].parent / ".." / "traces" / output.name
    for of in (links["same"], trace):
        for name, place in links.items():
            for force in ((), ("--force",)):
                code, out, err = ask(output, place, *force, of=of)
                assert (code, out, len(err.splitlines())) == (1, "", 1), name
                assert err.startswith(f"error: {place}: is what the command reads"), name
                assert links["same"].read_bytes() == before
                assert sorted(path.name for path in tmp_path.iterdir() if ".part" in path.name) == []


CONTENTS = (b"precious", b'{"traceEvents": []}', gzip.compress(b'{"traceEvents": []}', mtime=0))


@pytest.mark.parametrize(
    ("output", "content"), [(output, CONTENTS[at % 3]) for at, output in enumerate(FILES)], ids=[*map(named, FILES)]
)
def test_what_the_tool_did_not_write_stays_without_force(
    ask: Any, output: Output, tmp_path: Path, content: bytes
) -> None:
    place = tmp_path / output.name
    place.write_bytes(content)
    code, out, err = ask(output, place)
    assert (code, out) == (1, "")
    assert err == f"error: {place}: was not written by tracelens-graph, or changed since; --force replaces it\n"
    assert place.read_bytes() == content
    assert ask(output, place, "--force")[0] == 0
    assert place.read_bytes() != content


@pytest.mark.parametrize("output", [one for one in FILES if "folded" not in one.name], ids=named)
def test_what_the_tool_wrote_is_replaced(ask: Any, output: Output, tmp_path: Path) -> None:
    place = tmp_path / output.name
    place.touch()  # an empty file holds nothing that could be lost
    for _ in range(3):
        code, _, err = ask(output, place)
        assert (code, err) == (0, output.said)
        assert place.stat().st_size


@pytest.mark.parametrize("output", FOLDERS, ids=named)
def test_a_folder_of_nothing_but_our_files_is_written_again(ask: Any, output: Output, tmp_path: Path) -> None:
    place = tmp_path / output.name
    for _ in range(2):
        code, _, err = ask(output, place)
        assert code == 0, err
    for name in output.files:
        (place / name).write_bytes(b"older")
    assert ask(output, place)[0] == 0
    assert (place / output.files[0]).read_bytes() != b"older"
    ours = place / output.files[0]
    ours.write_bytes(b"precious")
    (place / "notes.txt").write_bytes(b"precious, too")
    others = {path.name: path.stat().st_mtime_ns for path in place.iterdir()}
    code, _, err = ask(output, place)
    assert code == 1
    assert f"{place}" in err
    assert ": was not written by" in err
    assert {path.name: path.stat().st_mtime_ns for path in place.iterdir()} == others, "nothing is written"
    assert ask(output, place, "--force")[0] == 0
    assert ours.read_bytes() != b"precious"
    assert (place / "notes.txt").read_bytes() == b"precious, too"
    assert {path.suffix for path in place.iterdir()} <= {".txt", ".csv", ".parquet", ".zip", ".grass"}


def test_the_tables_of_other_commands_stay(run: Run, trace: Path, tmp_path: Path) -> None:
    place = tmp_path / "tables"
    assert run("report", trace, "--csv", place)[0] == 0
    before = {path: path.read_bytes() for path in place.iterdir()}
    assert run("diff", trace, trace, "--csv", place)[0] == 0
    assert run("report", trace, "--csv", place)[0] == 0
    assert {path: path.read_bytes() for path in before} == before
    assert (place / "diff_totals.csv").exists()


def test_tables_of_an_input_folder_are_never_overwritten(run: Run, trace: Path, tmp_path: Path) -> None:
    assert run("report", trace, "--csv", tmp_path / "a")[0] == 0
    before = {path: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    for force in ((), ("--force",)):
        code, _, err = run("diff", "--by-name", tmp_path / "a", trace, "--csv", tmp_path / "a", *force)
        assert code == 1
        assert len(err.splitlines()) == 1
        assert {path: path.read_bytes() for path in (tmp_path / "a").iterdir()} == before


def test_ranks_write_into_folders_of_their_own_and_are_protected(run: Run, tmp_path: Path) -> None:
    write(simulate(ranks=2, steps=1, layers=1), tmp_path / "job")
    first = tmp_path / "job" / "a.1.json.gz"
    (tmp_path / "job" / "rank0.json.gz").rename(first)
    second = tmp_path / "job" / "a.2.json.gz"
    (tmp_path / "job" / "rank1.json.gz").rename(second)
    assert run("report", first, second, "--csv", tmp_path / "t")[0] == 0
    assert {path.name for path in (tmp_path / "t").iterdir()} == {"a.1", "a.2"}
    (tmp_path / "t" / "a.2" / "gpu_timeline.csv").write_text("precious")
    (tmp_path / "t" / "a.2" / "notes").touch()
    code, _, err = run("report", first, second, "--csv", tmp_path / "t")
    assert code == 1
    assert ".csv: was not written by" in err
    assert (tmp_path / "t" / "a.2" / "gpu_timeline.csv").read_text() == "precious"


def test_two_outputs_of_one_command_are_two_files(run: Run, trace: Path, tmp_path: Path) -> None:
    code, _, err = run("report", trace, "-o", tmp_path / "x.md", "-o", tmp_path / ".." / tmp_path.name / "x.md")
    assert (code, err) == (2, f"error: --output: {tmp_path}/../{tmp_path.name}/x.md is named twice\n")


# --- streams, devices, interrupts ------------------------------------------------------------------------------------


@pytest.mark.proof
@pytest.mark.parametrize(
    "output", [one for one in FILES if one.name.endswith((".json", ".md", ".graphml", ".folded"))], ids=named
)
def test_standard_output_pipes_and_devices_take_what_a_file_would_hold(
    ask: Any, output: Output, tmp_path: Path, trace: Path, other_rank: Path, execution_trace: Path
) -> None:
    if "-f" not in output.words.split():  # a name that ends in nothing says no format
        output = output._replace(words=f"{output.words} -f {output.name.rpartition('.')[2]}")
    place = tmp_path / output.name
    assert ask(output, place)[0] == 0
    whole = place.read_bytes()
    assert ask(output, "/dev/null")[0] == 0
    assert Path("/dev/null").is_char_device()
    pipe, copy = tmp_path / "pipe", tmp_path / "copy"
    os.mkfifo(pipe)
    with subprocess.Popen(f"cat {pipe} > {copy}", shell=True):
        assert ask(output, pipe)[0] == 0
    assert pipe.is_fifo()
    words = {"TRACE": str(trace), "OTHER": str(other_rank), "ET": str(execution_trace)}
    for stdout in ("-", "/dev/stdout"):
        command = [(words | {"PLACE": stdout}).get(word, word) for word in output.words.split()]
        done = subprocess.run([*PROGRAM, *command], capture_output=True, check=True)
        assert done.stderr == output.said.encode()
        assert done.stdout == copy.read_bytes() == whole


@pytest.mark.parametrize("format", ["csv", "json", "md"])
def test_a_terminal_obeys_nothing_that_a_trace_says(tmp_path: Path, format: str) -> None:
    trace = tmp_path / "t.json"
    kernel = {"ph": "X", "cat": "kernel", "name": "k\x1b[31m\x9b2J\x07", "pid": 0, "tid": 7, "ts": 1.0, "dur": 5.0}
    trace.write_text(json.dumps({"traceEvents": [kernel]}))
    main, terminal = os.openpty()
    command = [*PROGRAM, "report", str(trace), "--table", "kernel_summary", "-f", format]
    subprocess.run(command, stdout=terminal, stderr=subprocess.DEVNULL, check=True, timeout=60)
    shown = os.read(main, 1 << 16).decode()
    assert "x1b" in shown or "u001b" in shown
    assert "\x1b[31m" not in shown
    assert not {"\x9b", "\x07"} & {*shown}


@pytest.mark.parametrize("how", ["interrupt", "full"])
def test_what_stood_there_stays_when_writing_fails(tmp_path: Path, how: str) -> None:
    place = tmp_path / "x.json"
    place.write_bytes(b"older")

    def fail() -> None:
        with replacing(place) as file:
            file.write(b"half")
            raise KeyboardInterrupt if how == "interrupt" else OSError(28, "No space left on device")

    with pytest.raises(KeyboardInterrupt if how == "interrupt" else OutputError):
        fail()
    assert place.read_bytes() == b"older"
    assert list(tmp_path.iterdir()) == [place]


def test_files_of_the_tool_s_own_are_not_protected(tmp_path: Path) -> None:
    place = tmp_path / "state"
    place.write_bytes(b"older")
    with protecting(Protection()):
        with pytest.raises(OutputError, match="was not written by"):
            check_outputs([place])
        with replacing(place, private=True) as file:
            file.write(b"newer")
    assert place.read_bytes() == b"newer"
    assert place.stat().st_mode & 0o777 == 0o600


def test_a_suffix_tells_nothing(run: Run, trace: Path, tmp_path: Path) -> None:
    """A trace is safe under whatever name, as an output too."""
    for name in ("a.tlg", "b.html", "c.json.gz", "d"):
        other = Path(shutil.copy(trace, tmp_path / name))
        before = other.read_bytes()
        assert run("save", trace, "-o", other)[0] in (1, 2)
        assert run("report", trace, "-o", other)[0] in (1, 2)
        assert other.read_bytes() == before


def test_standard_input_is_an_input(trace_file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "trace"
    copy.write_bytes(trace_file.read_bytes())
    with copy.open("rb") as file:
        done = subprocess.run(
            [*PROGRAM, "save", "-", "-o", str(copy), "--force"], stdin=file, capture_output=True, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == f"error: {copy}: is what the command reads (standard input); name another file\n"
    assert copy.read_bytes() == trace_file.read_bytes()


def test_no_output_lies_in_the_folder_of_another(run: Run, trace_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    code, _, err = run("report", trace_file, "--csv", folder, "-o", folder / "kernel_summary.json")
    assert code == 2
    assert "--output names a file in the folder that --csv writes to" in err
    assert not folder.exists()


# --- names that cannot be meant --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("save TRACE -o ''", "--output: the name is empty; name a file"),
        ("save TRACE -o newdir/", "--output: newdir/ names a folder; name a file"),
        ("save TRACE -o nowhere/g.tlg", "nowhere/g.tlg: cannot be written: there is no folder nowhere"),
        ("save TRACE -o .", ".: is a folder; name a file"),
        ("export TRACE -o nowhere/x.csv", "nowhere/x.csv: cannot be written: there is no folder nowhere"),
        ("export TRACE", "say what to write: -o FILE, whose suffix says the format, or -f FORMAT"),
        (
            "export TRACE -f folded -o x.png",
            "--output: x.png: .png stands for a picture, and this is folded stacks; name",
        ),
        ("export TRACE -o x.folded -o x.folded", "--output: x.folded is named twice"),
        ("export TRACE -f csv -o -", "-: is standard output, which takes one file; csv is two: name a folder"),
        ("report TRACE --csv -", "--csv: - is standard output, which takes one file; name a folder for several"),
        ("db export - TRACE", "DIR: - is standard output"),
        (
            "report TRACE --csv --no-models",
            "--csv: --no-models looks like an option; name a folder",
        ),
        (
            "save TRACE -o --cache",
            "option '-o' requires an argument",
        ),
        ("report TRACE --table ops_summary --csv x", "--csv writes all tables, not a table"),
        ("report TRACE --csv file", "file: is a file; name a folder"),
        (
            "report TRACE -f json -o q.png",
            "--output: q.png: .png stands for a picture, and this is JSON; name a file .json",
        ),
        ("save TRACE -o x.json", "--output: x.json: .json stands for JSON, and this is a saved graph"),
    ],
)
def test_a_name_that_cannot_be_meant_is_refused_at_once(
    run: Run, tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tracelens_graph.loading.one.load_core", lambda *_, **__: pytest.fail("the trace was read"))
    (tmp_path / "file").write_text("precious")
    code, out, err = run(*(str(trace) if word == "TRACE" else word for word in shlex.split(words)))
    assert code in (1, 2)
    assert out == ""
    assert err.startswith(f"error: {said}")
    assert len(err.splitlines()) == 1
    assert "--force" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "traces"]


def test_names_without_a_known_suffix_are_taken(run: Run, tmp_path: Path, trace: Path) -> None:
    for options in (("-f", "json", "-o", "x.txt"), ("-f", "md", "-o", "notes"), ("-f", "xlsx", "-o", "r.1"),
                    ("--csv", "tables.csv")):  # fmt: skip
        code, _, err = run("report", trace, "--no-models", *options[:-1], tmp_path / options[-1])
        assert (code, err) == (0, "")


@pytest.mark.parametrize("words", ["save TRACE -o below/g.tlg", "report TRACE --csv below/tables"])
def test_an_error_names_the_file_that_was_asked_for(
    run: Run, tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """Below a file there are no files, and the half-written one cannot even be looked for."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below").write_text("")
    code, _, err = run(*(str(trace) if word == "TRACE" else word for word in words.split()))
    assert code == 1
    assert err.startswith(f"error: {words.split()[-1]}: ")
    assert ".part" not in err
