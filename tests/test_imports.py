"""What `import tracelens_graph` and a bare command cost, and what they give."""

from __future__ import annotations

import subprocess
import sys

import make_stub
import networkx as nx
import pytest

import tracelens_graph

HEAVY = {"numpy", "pandas", "networkx", "neo4j"}
RARE = {"platformdirs"}
"""Light, but needed by few commands."""


def python(snippet: str) -> list[str]:
    """Lines printed by a fresh interpreter that runs the snippet."""
    run = subprocess.run([sys.executable, "-c", snippet], check=True, capture_output=True, text=True)
    return run.stdout.splitlines()


def test_import_loads_no_heavy_package() -> None:
    assert HEAVY.isdisjoint(python("import sys, tracelens_graph; print(*sys.modules, sep='\\n')"))


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_bare_command_loads_no_heavy_package(option: str) -> None:
    printed = python(
        "import atexit, sys\n"
        "atexit.register(lambda: print('MODULES', *sys.modules, sep='\\n'))\n"
        "from tracelens_graph.cli import main\n"
        f"sys.argv = ['tracelens-graph', {option!r}]\n"
        "sys.exit(main())\n"
    )
    screen, modules = printed[: printed.index("MODULES")], printed[printed.index("MODULES") :]
    assert (HEAVY | RARE).isdisjoint(modules)
    assert any(tracelens_graph.__version__ in line or "Usage" in line for line in screen)


def test_public_names_are_sorted_and_importable() -> None:
    assert list(tracelens_graph.__all__) == sorted(tracelens_graph.__all__, key=lambda name: (not name.isupper(), name))
    missing = [name for name in tracelens_graph.__all__ if not hasattr(tracelens_graph, name)]
    assert missing == []
    assert set(tracelens_graph.__all__) <= set(dir(tracelens_graph))


def test_load_stays_a_function_whatever_was_imported_before() -> None:
    code = "import tracelens_graph.loading.one, tracelens_graph.api, tracelens_graph as t; assert callable(t.load)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.checkout
def test_modules_import_each_other_in_no_circle() -> None:
    """Imports for type checkers count."""
    import grimp

    imports = grimp.build_graph("tracelens_graph", cache_dir=None)
    graph = nx.DiGraph(
        (module, imported)
        for module in imports.modules
        for imported in imports.find_modules_directly_imported_by(module)
    )
    assert [circle for circle in nx.strongly_connected_components(graph) if len(circle) > 1] == []


def test_type_checkers_see_the_public_names() -> None:
    for file, text in make_stub.stubs().items():
        assert file.read_text() == text, "run docs/make_stub.py"
