"""Tests that run programs of JAX need it; where it is not, `make test` passes them over."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("jax") else ["test_*.py"]
