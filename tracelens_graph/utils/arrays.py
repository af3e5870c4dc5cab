"""What arrays hold: names for the four kinds that most functions take and return."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[np.signedinteger[Any]]
"""Positions of nodes in the columns of a graph; -1 for none where a function says so."""

Ns: TypeAlias = NDArray[np.int64]
"""Moments and durations in nanoseconds."""

Codes: TypeAlias = NDArray[np.integer[Any]]
"""Positions in a table of distinct values: interned texts, kinds, groups."""

Mask: TypeAlias = NDArray[np.bool_]
"""One truth value per entry of something else."""
