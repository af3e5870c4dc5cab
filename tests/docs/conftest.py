"""Lets the tests import the scripts of docs/."""

from __future__ import annotations

import sys

from corpus import CHECKOUT

sys.path.insert(0, str(CHECKOUT / "docs"))
