"""What runs by itself, on a push or a commit, calls what is there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from release import installing, notes_of, on_index
from slow_tests import seconds, slow_tests

from corpus import CHECKOUT
from tracelens_graph.simulate import simulate

pytestmark = pytest.mark.checkout

WORKFLOW = CHECKOUT / ".github/workflows/ci.yml"
RELEASE = CHECKOUT / ".github/workflows/release.yml"
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


def test_a_release_makes_what_is_there() -> None:
    workflow = yaml.safe_load(RELEASE.read_text())
    assert made("\n".join(commands(workflow))) == {"release"} <= targets()
    assert "secrets" not in RELEASE.read_text()


def test_notes_of_a_release_are_its_part_of_the_changelog() -> None:
    changelog = (
        "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-01-01\n\n### Added\n\n- One.\n## [1.1.0]\n\n- Two.\n"
    )
    assert notes_of("v1.2.0", "1.2.0", changelog) == "### Added\n\n- One.\n"
    assert notes_of("v1.1.0", "1.1.0", changelog) == "- Two.\n"
    for tag, version in (("v1.2.0", "1.3.0"), ("v1.3.0", "1.3.0")):
        with pytest.raises(SystemExit, match="1.3.0"):
            notes_of(tag, version, changelog)


def test_a_release_changes_all_lines_that_install() -> None:
    texts = [on_index(path.read_text()) for path in installing()]
    assert [one for text in texts for one in re.findall(r"pip install '?\..*", text)] == []
    assert sum("pip install tracelens_graph" in text for text in texts) > 1
    assert any("INSTALL = \"pip install 'tracelens_graph[{}]'\"" in text for text in texts)


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


ACTION = CHECKOUT / "action.yml"


def run_action(folder: Path, script: str, **given: str) -> subprocess.CompletedProcess[str]:
    """Run a step of the action as a runner does, with this environment's program in place of an installed one."""
    program = folder / "tracelens_graph/bin"
    program.parent.mkdir(exist_ok=True)
    program.unlink(missing_ok=True)
    program.symlink_to(Path(sys.executable).parent)
    names = dict.fromkeys(("TRACE", "BASELINE", "OPTIONS", "FAIL_IF", "FAIL_IF_CHANGED"), "") | given
    env = {**os.environ, "RUNNER_TEMP": str(folder), "GITHUB_STEP_SUMMARY": str(folder / "summary.md"), **names}
    return subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], env=env, capture_output=True, text=True)


def test_the_action_writes_reports_and_fails_where_a_condition_holds(tmp_path: Path) -> None:
    action = yaml.safe_load(ACTION.read_text())
    scripts = [step for step in action["runs"]["steps"] if "FAIL_IF" in step.get("env", {})]
    assert set(re.findall(r"inputs\.([\w-]+)", ACTION.read_text())) == action["inputs"].keys()
    job = tmp_path / "job"
    job.mkdir()
    for rank in simulate(2, steps=2, layers=1, dataloader_rank=1, dataloader_us=20_000).ranks:
        (job / f"rank{rank.rank}.json").write_text(json.dumps(rank.trace))
    script, trace = scripts[0]["run"], str(job / "rank0.json")
    found = run_action(tmp_path, script, TRACE=trace, OPTIONS="--step 3-4", FAIL_IF="idle_percent > 101\n\n")
    assert found.returncode == 0, found.stderr
    out = tmp_path / "gpu-time"
    assert {"report.html", "report.json", "report.md", "comment.md"} <= {path.name for path in out.iterdir()}
    assert (tmp_path / "summary.md").read_text() == (out / "comment.md").read_text()
    against = {"BASELINE": str(out / "report.json"), "FAIL_IF_CHANGED": "total_ms:pct > 5\nbusy_ms:pct > -1"}
    assert run_action(tmp_path, script, TRACE=trace, OPTIONS="--step 3-4", **against).returncode == 3
    assert "## GPU time against" in (out / "comment.md").read_text()
    assert run_action(tmp_path, script, TRACE=trace, FAIL_IF="op:* x > 1").returncode == 2
    found = run_action(tmp_path, script, TRACE=str(job))
    assert found.returncode == 0, found.stderr
