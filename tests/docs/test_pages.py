"""Pages hold together: links, names, options, paths, words; thresholds and tables are those of the code."""

from __future__ import annotations

import importlib
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from itertools import chain
from pathlib import Path

import make_reference
import pytest
from handmade_jax import MIXED, profile
from pages import DOCS, PAGES
from rank_traces import collective, job
from typer.testing import CliRunner

import tracelens_graph
import tracelens_graph as tlg
from corpus import CHECKOUT
from tracelens_graph.analyses.diagnosis import thresholds
from tracelens_graph.analyses.diagnosis.finding import ADVICE, KINDS
from tracelens_graph.analyses.opportunities.rules import RULES
from tracelens_graph.cli.app import app
from tracelens_graph.perf import shortfalls
from tracelens_graph.perf.devices import architecture
from tracelens_graph.registry import HOMES, REPORT, schemas
from tracelens_graph.simulate import PROBLEMS, write
from tracelens_graph.simulate import simulate as simulated
from tracelens_graph.simulate.__main__ import main as simulate
from tracelens_graph.simulate.serving import simulate as simulate_server
from tracelens_graph.tables.table import Table

GENERATED = {"reference.md", "cli.md", "tables.md", "parity.md"}
BY_HAND = [page for page in PAGES if page.name not in GENERATED]
TEXTS = [*PAGES, CHECKOUT / "CHANGELOG.md", *DOCS.glob("*.py"), *(CHECKOUT / "examples").glob("*.[pm][yd]")]
LINK = re.compile(r"\]\(([^)\s]+)\)")
FORBIDDEN = re.compile(
    r"\b(issues?|tickets?|sessions?|helpers?|workplace)\b|(?<!\w)/(work|root|home|tmp)/|\b(pypi|artifactory)\b.*://"
    r"|(?<!coding )(?<!HSA )(?<!/)\bagents?\b(?!\.md)",
    re.IGNORECASE,
)
"""Words of how the project is made. A coding agent reads answers, and an HSA agent is a device."""


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Names by which headings of a page are linked to."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.checkout
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_resolve(page: Path) -> None:
    for link in LINK.findall(re.sub(r"`[^`\n]*`", "code", prose(page))):
        if not link.startswith(("https://", "http://")):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.is_file(), link
            assert not anchor or anchor in anchors(target), link
            assert target.is_relative_to(page.parent), f"{link} is not on the site"


@pytest.mark.checkout
def test_the_site_leads_to_every_page() -> None:
    def listed(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        return [name for part in (entry.values() if isinstance(entry, dict) else entry) for name in listed(part)]

    nav = tomllib.loads((CHECKOUT / "zensical.toml").read_text())["project"]["nav"]
    assert sorted(listed(nav)) == sorted(page.name for page in DOCS.glob("*.md"))


def test_every_page_is_linked_from_the_list_of_pages() -> None:
    linked = {Path(link.partition("#")[0]).name for link in LINK.findall(prose(DOCS / "README.md"))}
    assert {page.name for page in PAGES} - linked == {"README.md"}


def test_the_readme_is_short() -> None:
    assert len((CHECKOUT / "README.md").read_text().splitlines()) < 150


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.name)
def test_texts_are_about_the_project_only(text: Path) -> None:
    lines = [line for line in text.read_text().splitlines() if FORBIDDEN.search(line)]
    assert lines == []


def test_every_public_name_is_explained() -> None:
    text = "".join(page.read_text() for page in BY_HAND)
    names = set(tracelens_graph.__all__) - {"__version__"}
    assert sorted(name for name in names if not re.search(rf"\b{name}\b", text)) == []


PUBLIC = (
    "", "perf", "categories", "graph", "compat", "compat.TreePerf", "compat.EventReplay", "compat.PerfModel",
    "compat.PerfModel.perf_model", "simulate", "schema", "ogm", "replay",
)  # fmt: skip
"""The package and its documented sub-packages; what they name in `__all__` is public, everything else may change."""

IMPORT = re.compile(
    r"^(?:>>> |\.\.\. )?from tracelens_graph(?:\.(?P<package>[\w.]+))? import (?P<names>\([^)]*\)|[\w, ]+)",
    re.MULTILINE,
)


@pytest.mark.parametrize(
    "text",
    [*PAGES, *(CHECKOUT / "examples").rglob("*.py"), *(CHECKOUT / "examples").glob("*.ipynb")],
    ids=lambda path: path.name,
)
def test_documentation_imports_nothing_private(text: Path) -> None:
    for match in IMPORT.finditer(text.read_text().replace('"from', "from")):
        package = match["package"] or ""
        assert package in PUBLIC, match[0]
        module = importlib.import_module(f"tracelens_graph.{package}".rstrip("."))
        for name in re.findall(r"\w+", match["names"]):
            assert name in module.__all__ or (not package and name in PUBLIC), match[0]


@pytest.mark.parametrize("package", PUBLIC)
def test_public_names_are_there(package: str) -> None:
    module = importlib.import_module(f"tracelens_graph.{package}".rstrip("."))
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert package or {"Any", "TYPE_CHECKING", "import_module"}.isdisjoint(dir(module))


@pytest.mark.parametrize("kind", [[], ["--serving"]])
def test_every_option_and_problem_of_the_simulator_is_explained(
    kind: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        simulate([*kind, "--help"])
    options = {option.replace("--no-", "--") for option in re.findall(r"--[\w-]+", capsys.readouterr().out)} - {
        "--help"
    }
    page = (DOCS / "simulator.md").read_text().replace("--no-", "--")
    assert sorted(option for option in options if not re.search(rf"`{option}\b", page)) == []
    assert [problem for problem in PROBLEMS if f"| `{problem}` |" not in page] == []


@pytest.mark.checkout
@pytest.mark.parametrize("page", [DOCS / "architecture.md", CHECKOUT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_files_that_pages_for_developers_name_exist(page: Path) -> None:
    named = re.findall(r"`((?:[\w.]+/)*[\w]+\.(?:py|txt|md)|[\w/]+/)`", prose(page))
    roots = (CHECKOUT, CHECKOUT / "tracelens_graph", CHECKOUT / "loaders/kineto")
    assert len(named) > 14
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []


def rows(heading: str) -> list[list[str]]:
    """Cells of the first table below a heading."""
    text = (Path(CHECKOUT) / "docs" / "diagnosis.md").read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_thresholds_are_those_of_the_code() -> None:
    written: dict[str, float] = {}
    for names, values, *_ in rows("Thresholds"):
        found = re.findall(r"`(\w+)`", names)
        written.update(zip(found, map(float, values.split(", ")), strict=True))
    there = {name: float(value) for name, value in vars(thresholds).items() if name.isupper()}
    assert written == there


def test_kinds_and_suggestions_are_those_of_the_code() -> None:
    assert {row[0].strip("`"): row[1] for row in rows("The first line")} == KINDS
    assert {row[0].strip("`"): row[1] for row in rows("What to try")} == ADVICE
    assert {row[0].strip("`"): row[1] for row in rows("Opportunities")} == {
        name: one.says for name, one in RULES.items()
    }
    assert {row[0].strip("`") for row in rows("One operation")} == shortfalls.RULES.keys()


SECTION = re.compile(r"^### (\S+)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
SECTIONS = dict(SECTION.findall((DOCS / "tables.md").read_text()))
WAYS = {kind: re.compile(rf"^{kind}: `(.+?)`", re.MULTILINE) for kind in ("Command", "Python")}
COMMANDS = {name: found[1] for name, text in SECTIONS.items() if (found := WAYS["Command"].search(text))}
RANKS = job({rank: [collective(0, 9), collective(20, 9, "all_to_allv", elements=2, split=[1, 1])] for rank in (0, 1)})
COMMANDS |= {name: f"tracelens-graph report TRACE --table {name}" for name in REPORT}
COMMANDS |= {
    name: f"tracelens-graph ask {name} TRACE{' TRACE' * question.several}"
    for name, question in tlg.QUESTIONS.items()
    if name not in COMMANDS
}
CALLS = {name: found[1] for name, text in SECTIONS.items() if (found := WAYS["Python"].search(text))}
CALLS |= {name: f'tlg.report_tables(g)["{name}"]' for name in REPORT}
CALLS |= {
    name: f'tlg.QUESTIONS["{name}"]({"[g, g]" if question.several else "g"})'
    for name, question in tlg.QUESTIONS.items()
    if name not in CALLS
}


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(simulated(ranks=2, steps=2, layers=1), tmp_path_factory.mktemp("tables"))[0]


@pytest.fixture(scope="module")
def graph(trace: Path) -> tlg.TraceGraph:
    return tlg.load(trace)


def execution_trace(trace: Path) -> Path:
    return trace.with_name("rank0.execution-trace.json")


@pytest.fixture(scope="module")
def replayed(trace: Path) -> dict[str, str]:
    """A folder of programs, and results of one."""
    folder = trace.parent / "programs"
    assert CliRunner().invoke(app, ["replay", str(trace), "--op", "aten::mm", "-o", str(folder)]).exit_code == 0
    found = {"PROGRAMS": str(folder)}
    for name in ("A.json", "B.json"):
        signature = {"dims": [[8]], "types": ["float"], "strides": [[1]], "values": [""]}
        result = {"op": "aten::relu", "signature": signature, "device": "GPU", "torch": "2.9", "median_us": 2.0,
                  "spread_us": [2.0, 2.0], "iterations": 5, "traced_us": 9.0, "kernels": ["k"]}  # fmt: skip
        found[name] = str(trace.parent / name)
        Path(found[name]).write_text(json.dumps([result]))
    return found


@pytest.fixture(scope="module")
def linked(trace: Path) -> tlg.TraceGraph:
    return tlg.load(trace, et=execution_trace(trace))


def columns_of(section: str) -> set[str]:
    """Columns that a section explains, and those that it names as explained in another."""
    elsewhere = " ".join(re.findall(r"^(?:As in|Columns, as) .*", section, re.MULTILINE))
    items = re.findall(r"^\* (`.+?`(?:, `.+?`)*)(?: \([^)]*\))?(?:, with .*?)?: |$", section, re.MULTILINE)
    return {*chain.from_iterable(map(spelled_out, [*items, elsewhere]))}


def spelled_out(names: str) -> Iterator[str]:
    """Names between backticks, with what the first of several has before its last _ where another begins with one."""
    stem = ""
    for name in re.findall("`(.+?)`", names):
        stem = stem if name[0] == "_" else name.rpartition("_")[0]
        yield stem + name if name[0] == "_" else name


MAY_BE_EMPTY = (
    "culprits",
    "diff_within",
    "late_ranks",
    "late_arrivals",
    "unmatched_collectives",
    "critical_path_ties",
    "programs",
    "memory_segments",
)
"""Tables without rows where all ranks are alike; of JAX alone; of snapshots of memory alone."""
WITH_TORCH = {"replay_verify"}
"""Tables whose commands need PyTorch."""


DOCUMENTED = HOMES.keys() - {"lanes", "perf_sheet"}
"""All tables but that of a page, and the one of all families, which has a name of its own there."""


def test_page_is_current() -> None:
    assert make_reference.tables() == (DOCS / "tables.md").read_text(), "run docs/make_reference.py"


def test_every_table_is_explained() -> None:
    assert SECTIONS.keys() >= DOCUMENTED
    assert CALLS.keys() >= DOCUMENTED
    assert COMMANDS.keys() >= DOCUMENTED


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - WITH_TORCH))
def test_command_works(name: str, trace: Path, replayed: dict[str, str], tmp_path: Path) -> None:
    et = str(execution_trace(trace))
    xplane = tmp_path / "host.xplane.pb"
    xplane.write_bytes(profile(*MIXED))
    places = {"TRACE": str(trace), "ET": et, "PROFILE": str(xplane), **replayed}
    arguments = [places.get(word, word) for word in COMMANDS[name].replace("--csv ", f"--csv {tmp_path}/").split()[1:]]
    if COMMANDS[name].count("TRACE") > 1:
        arguments[arguments.index(str(trace))] = str(trace.with_name("rank1.json.gz"))
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    least = 1 if " --csv " in COMMANDS[name] or name in MAY_BE_EMPTY else 2 if " ask " in COMMANDS[name] else 3
    assert len(result.output.splitlines()) >= least


@pytest.mark.parametrize("name", CALLS)
def test_call_gives_a_table_with_columns_of_the_page(
    name: str, graph: tlg.TraceGraph, linked: tlg.TraceGraph, replayed: dict[str, str]
) -> None:
    *statements, call = CALLS[name].split("; ")
    known = {"tlg": tlg, "g": graph, "ranks": RANKS, "linked": linked, "profile": tlg.load(profile(*MIXED))}
    known |= {"programs": replayed["PROGRAMS"], "a": replayed["A.json"], "b": replayed["B.json"]}
    if name == "diff_phases":
        known["g"] = tlg.load(simulate_server(steps=10, layers=1).ranks[0].trace)
    exec("\n".join([*statements, f"table = {call}"]), known)
    table = known["table"]
    assert isinstance(table, Table)
    assert len(table) or "QUESTIONS" in call or name in MAY_BE_EMPTY
    columns = columns_of(SECTIONS[name])
    if name == "comparison":
        patterns = [re.sub("RUN|COLUMN", ".+", column) for column in columns]
        assert all(any(re.fullmatch(pattern, column) for column in table.columns) for pattern in patterns)
    else:
        assert {re.sub(r"^(rank|device)_(?:\d+|[A-Z])_", r"\1_i_", column) for column in table.columns} <= columns


@pytest.mark.parametrize("name", REPORT)
def test_columns_of_the_page_are_in_the_table_under_some_options(name: str, graph: tlg.TraceGraph) -> None:
    switches = {field.name: True for field in fields(tlg.ReportOptions) if field.default is False}
    plain = tlg.report_tables(graph)[name].columns
    options = tlg.ReportOptions(**switches, arch=architecture("h100-sxm"), compare_with=graph.everything)
    full = tlg.report_tables(graph, options)[name].columns
    # Of the first there is one of two, depending on who launched the kernels; the others need an execution trace.
    # Instructions and devices stand in tables of profiles of JAX alone.
    absent = {
        "Instruction",
        "% of graph time",
        "gpu_pid",
        "et_node",
        "input_tensors",
        "input_storages",
        "output_tensors",
        "output_storages",
    }
    assert schemas()[name].keys() - absent == full.keys()
    section = SECTIONS[name]
    optional = re.findall(r"(?:^\* |: |, )(`[^`]+`(?:, `_[^`]+`)*)(?: \([^)]*\))?, with `--", section, re.MULTILINE)
    assert {column for names in optional for column in spelled_out(names)} == (full.keys() - plain.keys())
