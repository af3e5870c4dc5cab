"""Which tests are slow: those of `slow_tests.txt`, which `make quick` leaves out.

    python tests/slow_tests.py REPORT.xml    write the list anew from a report of pytest (`--junitxml`)

`make slow` runs all tests that need no database, browser or real traces, and writes the list.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

LIST = Path(__file__).with_suffix(".txt")
_SLOW_S = 0.2
"""Seconds from which a test is slow, all its cases together, in one of two processes on two cores."""


def slow_tests() -> frozenset[str]:
    """Ids of the slow tests, without their parameters."""
    return frozenset(LIST.read_text().split())


def test_of(nodeid: str) -> str:
    """The id of a test without its parameters and the group that it runs in."""
    return nodeid.partition("[")[0].partition("@")[0]


def seconds(report: Path) -> Counter[str]:
    """Test -> how long its cases took."""
    found: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        *folders, last = case.attrib["classname"].split(".")
        # A class within a file stands behind the name of the file.
        within = f"{last}::" if last[0].isupper() else ""
        file = "/".join(folders if within else [*folders, last])
        found[test_of(f"{file}.py::{within}{case.attrib['name']}")] += float(case.attrib["time"])
    return found


if __name__ == "__main__":
    LIST.write_text("".join(f"{test}\n" for test, s in sorted(seconds(Path(sys.argv[1])).items()) if s >= _SLOW_S))
