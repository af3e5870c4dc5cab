"""What is written by hand holds together: links, names, options, paths, words."""

from __future__ import annotations

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
    for link in LINK.findall(prose(page)):
        if not link.startswith(("https://", "http://")):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.is_file(), link
            assert not anchor or anchor in anchors(target), link


def test_every_page_is_linked_from_the_readme() -> None:
    linked = {Path(link.partition("#")[0]).name for link in LINK.findall(prose(CHECKOUT / "README.md"))}
    assert {page.name for page in PAGES} - linked == {"README.md"}


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.name)
def test_texts_are_about_the_project_only(text: Path) -> None:
    lines = [line for line in text.read_text().splitlines() if FORBIDDEN.search(line)]
    assert lines == []


def test_every_public_name_is_explained() -> None:
    text = "".join(page.read_text() for page in BY_HAND)
    names = set(tracelens_graph.__all__) - {"__version__"}
    assert sorted(name for name in names if not re.search(rf"\b{name}\b", text)) == []


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
def test_files_that_the_architecture_names_exist() -> None:
    named = re.findall(r"`((?:[\w]+/)*[\w]+\.py|[\w/]+/)`", prose(DOCS / "architecture.md"))
    roots = (CHECKOUT, CHECKOUT / "tracelens_graph", CHECKOUT / "loaders/kineto")
    assert len(named) > 15
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []
