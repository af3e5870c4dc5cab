"""What tests have workers of a Dask cluster do; a module of its own, which workers can import."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path


def size(path: str) -> int:
    return Path(path).stat().st_size


def slow(path: str) -> int:
    time.sleep(0.3)
    return size(path)


def deadly(path: str) -> int:
    """Kill the worker for some files."""
    if path.endswith(".deadly"):
        os.kill(os.getpid(), signal.SIGKILL)
    return size(path)


def failing(path: str) -> int:
    raise RuntimeError(path, threading.Lock())  # which does not survive pickling
