"""The linter of the scripts of pages finds what is wrong, where it stands, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from lint_scripts import FOLDER, PAGES, PROGRAM, faults

pytestmark = [
    pytest.mark.checkout,
    pytest.mark.skipif(not PROGRAM.exists(), reason="no linter of scripts here: pip install '.[dev]'"),
]


def test_scripts_of_pages_have_no_faults() -> None:
    assert faults(PAGES, FOLDER) == []


def test_faults_are_told_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "shared.js").write_text("const used = () => 1;\nconst unused = 2;\nconst elsewhere = 3;\n")
    (tmp_path / "one.js").write_text("used();\n\nmissing(used() == 1);\n")
    (tmp_path / "two.js").write_text("used(elsewhere);\n")
    found = faults({"one": ("shared.js", "one.js"), "two": ("shared.js", "two.js")}, tmp_path)
    assert [(fault.file, fault.line, fault.rule) for fault in found] == [
        ("one.js", 3, "eslint(eqeqeq)"), ("one.js", 3, "eslint(no-undef)"), ("shared.js", 2, "eslint(no-unused-vars)"),
    ]  # fmt: skip


def test_every_script_is_on_a_page() -> None:
    assert {path.name for path in FOLDER.glob("*.js")} == {name for scripts in PAGES.values() for name in scripts}
