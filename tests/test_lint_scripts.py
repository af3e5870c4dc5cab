"""The linter of the scripts of pages finds what is wrong, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from lint_scripts import FOLDER, PROGRAM, faults, unused

pytestmark = [
    pytest.mark.checkout,
    pytest.mark.skipif(not PROGRAM.exists(), reason="no linter of scripts here: pip install '.[dev]'"),
]


def test_scripts_of_pages_have_no_faults() -> None:
    assert faults(FOLDER) == ""
    assert unused(FOLDER) == []


def test_faults_are_found(tmp_path: Path) -> None:
    (tmp_path / "shared.js").write_text("export const used = () => 1;\nexport const idle = 2;\nconst unused = 3;\n")
    (tmp_path / "one.js").write_text('import { used } from "./shared.js";\n\nmissing(used() == 1);\n')
    found = faults(tmp_path)
    for part in ("eqeqeq", "no-undef", "no-unused-vars", "shared.js:3", "one.js:3"):
        assert part in found
    assert unused(tmp_path) == ["shared.js: idle"]
