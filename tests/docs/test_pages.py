"""What is written by hand holds together: links, names, options, paths, words."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from pages import DOCS, PAGES

import tracelens_graph
from corpus import CHECKOUT
from tracelens_graph.simulate import PROBLEMS
from tracelens_graph.simulate.__main__ import main as simulate

GENERATED = {"reference.md", "cli.md", "tables.md", "parity.md"}
BY_HAND = [page for page in PAGES if page.name not in GENERATED]
TEXTS = [*PAGES, CHECKOUT / "CHANGELOG.md", *DOCS.glob("*.py"), *(CHECKOUT / "examples").glob("*.[pm][yd]")]
LINK = re.compile(r"\]\(([^)\s]+)\)")
FORBIDDEN = re.compile(
    r"\b(issues?|tickets?|sessions?|agents?|helpers?|workplace)\b|(?<!\w)/(work|root|home|tmp)/|\b(pypi|artifactory)\b.*://",
    re.IGNORECASE,
)


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


def test_every_option_and_problem_of_the_simulator_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        simulate(["--help"])
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
