"""Tests that run programs need PyTorch; where it is not, `make test` passes them over."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # where its modules look for one another, as in scripts
collect_ignore_glob = [] if find_spec("torch") else ["test_*.py"]
