"""The browser that tests look at pages with."""

from __future__ import annotations

import shutil

import pytest

PROGRAMS = ("chromium", "google-chrome")


@pytest.fixture(scope="session")
def chromium() -> str:
    """The program."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        pytest.skip(f"no browser here: install {' or '.join(PROGRAMS)}")
    return found
