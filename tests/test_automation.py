"""What runs by itself, on a push or a commit, calls what is there."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from slow_tests import seconds, slow_tests

from corpus import CHECKOUT

pytestmark = pytest.mark.checkout

WORKFLOW = CHECKOUT / ".github/workflows/ci.yml"
HOOKS = CHECKOUT / ".pre-commit-config.yaml"
RUN = CHECKOUT / ".ci/run"


def targets() -> set[str]:
    """Targets of the Makefile."""
    return set(re.findall(r"^([a-z][\w-]*):(?!=)", (CHECKOUT / "Makefile").read_text(), re.MULTILINE))


def made(text: str) -> set[str]:
    """Targets that commands make, those in comments left out."""
    return set(re.findall(r"^[^#\n]*\bmake ([a-z][\w-]*)", text, re.MULTILINE))


def commands(workflow: dict[str, Any]) -> list[str]:
    return [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]


def test_the_workflow_runs_what_is_there() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text())
    assert commands(workflow) == ["make quick", ".ci/run"]
    assert made("\n".join(commands(workflow))) <= targets()
    assert os.access(RUN, os.X_OK)
    assert workflow[True].keys() == {"push", "pull_request", "merge_group"}  # YAML 1.1 reads "on" as a truth value
    assert "secrets" not in WORKFLOW.read_text()


def test_ci_makes_targets_that_are_there() -> None:
    assert {"test", "lint", "demo", "quick-wheel"} <= made(RUN.read_text()) <= targets()


def test_hooks_run_what_lint_runs() -> None:
    hooks = {hook["id"]: hook for repo in yaml.safe_load(HOOKS.read_text())["repos"] for hook in repo["hooks"]}
    assert {"end-of-file-fixer", "check-added-large-files"} <= hooks.keys()
    entries = [hook["entry"] for hook in hooks.values() if "entry" in hook]
    assert all(entry.startswith(".venv/bin/") for entry in entries)
    lint = (CHECKOUT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    run = {entry.removeprefix(".venv/bin/").removeprefix("python ").split()[0] for entry in entries}
    assert run == set(re.findall(r"(?:-m |/bin/|\(RUN\) (?!-))(\S+)", lint))


def test_slow_tests_are_there() -> None:
    listed = slow_tests()
    assert listed
    for test in listed:
        path, *_, name = test.split("::")
        text = (CHECKOUT / path).read_text()
        named = re.search(rf"^(    )?(def {name}\(|{name} = )", text, re.MULTILINE)
        assert named, f"{test} is not there: renew the list with `make slow`"


def test_times_are_read_from_a_report(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.a.test_b" name="test_c[1]" time="0.2"/>'
        '<testcase classname="tests.a.test_b" name="test_c[2-x@y]" time="0.5"/>'
        '<testcase classname="tests.a.test_b.TestD" name="test_e@neo4j" time="1"/></testsuite></testsuites>'
    )
    assert seconds(report) == {"tests/a/test_b.py::test_c": 0.7, "tests/a/test_b.py::TestD::test_e": 1}
