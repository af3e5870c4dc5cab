"""How many examples tests draw: few in every run, many when a run is to be thorough.

`make test HYPOTHESIS=many`, or `pytest --hypothesis-profile=many`, draws many. Such a run also takes every kill point
of the database tests, and every real trace where other runs take chosen ones.
"""

from __future__ import annotations

import os

from hypothesis import settings

IN_CI = os.environ.get("CI") == "true"

_USUAL = 100
"""Examples of a test that says nothing, in hypothesis's own profile."""

# Timing of one example says nothing on a shared machine, so no profile has a deadline.
settings.register_profile("few", max_examples=25, deadline=None, derandomize=IN_CI, print_blob=True)
settings.register_profile("many", max_examples=1000, deadline=None, derandomize=False, print_blob=True)
settings.load_profile("few")


def thorough() -> bool:
    """Whether this run draws many examples. Ask when tests are collected: the profile is chosen after conftest.py."""
    return settings.default is not None and settings.default.max_examples > _USUAL


def examples(number: int) -> settings:
    """Settings of a test whose examples cost more, or tell less, than others': `number` where those have 100."""
    return settings(max_examples=max(2, rounds(number)))


def rounds(number: int) -> int:
    """How often a test that draws for itself does so, where it would be `number` times by hypothesis's own profile."""
    assert settings.default is not None
    return max(1, number * settings.default.max_examples // _USUAL)
