"""Hints for names that do not exist."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.utils.suggest import did_you_mean, either, there_are

TABLES = ["gpu_timeline", "ops_summary", "ops_unique_args", "kernel_summary"]
NAMES = st.lists(st.text(max_size=12), max_size=12)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("op_summary", "did you mean ops_summary?"),
        ("OPS_SUMMRY", "did you mean ops_summary?"),
        ("GPU_Timeline", "did you mean gpu_timeline?"),
        ("ops", "did you mean ops_summary or ops_unique_args?"),
        ("k", "did you mean kernel_summary?"),
        ("zzz", ""),
        ("", ""),
    ],
)
def test_did_you_mean(wanted: str, expected: str) -> None:
    assert did_you_mean(wanted, TABLES) == expected


def test_exact_name_in_another_case_is_the_only_one_meant() -> None:
    assert did_you_mean("GEMM", ["gemm_fwd", "gemm"]) == "did you mean gemm?"


def test_names_are_suggested_as_they_are_written() -> None:
    assert did_you_mean("gem", ["GEMM", "MoE"]) == "did you mean GEMM?"


def test_aliases_lead_to_the_name_that_they_stand_for() -> None:
    aliases = {"big-device": "a1", "bigger-device": "a1"}
    assert did_you_mean("big", ["a1", "b1"], aliases=aliases) == "did you mean a1?"
    assert did_you_mean("huge-device", ["a1"], aliases={"hugs-device": "a1"}) == "did you mean a1?"


def test_names_that_are_no_plain_words_are_quoted() -> None:
    assert either(["f<a, b>", "g"]) == "'f<a, b>' or g"
    assert there_are(["", "\x1b[31m", "two words"]) == r"there are '', '\x1b[31m', 'two words'"


@given(st.text(max_size=12), NAMES)
def test_hint_is_printable_and_names_only_what_is_known(wanted: str, known: list[str]) -> None:
    meant = did_you_mean(wanted, known)
    assert meant.isprintable()
    assert meant == "" or any(name in meant or repr(name) in meant for name in known)


@given(st.text(min_size=1, max_size=12), NAMES)
def test_a_known_name_in_any_case_is_always_found(wanted: str, known: list[str]) -> None:
    assert did_you_mean(wanted.casefold(), [*known, wanted]) == f"did you mean {either([wanted])}?"


def test_difflib_is_imported_only_where_a_name_is_sought() -> None:
    code = "import sys, tracelens_graph.utils.suggest; sys.exit('difflib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
