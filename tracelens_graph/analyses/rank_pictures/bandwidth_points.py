"""Bus bandwidth of the collectives of a job against the size of their messages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens_graph.analyses.ranks.job import Job

MOST_POINTS = 2000
"""Collectives that are shown."""


@dataclass(frozen=True, eq=False)
class BandwidthPoints:
    """Collectives of which bandwidth and size are known.

    Attributes:
        kinds: kind -> rows of `rank_collectives`, the kind with the most collectives first.
        peaks: rates of the links, GB/s, the greatest first.
        device: name of the device of these links, None where not known.
        notes: what is not shown, and why.
    """

    kinds: Mapping[str, list[dict[str, Any]]]
    peaks: list[float]
    device: str | None
    notes: list[str]

    @classmethod
    def of(cls, job: Job) -> BandwidthPoints:
        """Those of a job, from its table `rank_collectives`."""
        records = job.table("rank_collectives").records()
        known = [row for row in records if _positive(row["message_bytes"]) and _positive(row["busbw_gb_s"])]
        notes = []
        if unknown := Counter(row["kind"] for row in records) - Counter(row["kind"] for row in known):
            told = ", ".join(f"{count:,} {kind}" for kind, count in unknown.most_common())
            notes.append(f"not drawn, since size or bandwidth are not known: {told}")
        shown = known
        if len(known) > MOST_POINTS:
            known.sort(key=lambda row: (row["kind"], row["message_bytes"], row["busbw_gb_s"]))
            places = np.linspace(0, len(known) - 1, MOST_POINTS).round().astype(int)
            shown = [known[at] for at in places.tolist()]
            notes.append(
                f"{len(shown):,} of {len(known):,} collectives are drawn, evenly spread over kinds, sizes and"
                " bandwidths"
            )
        kinds: dict[str, list[dict[str, Any]]] = {
            kind: [] for kind, _ in Counter(row["kind"] for row in known).most_common()
        }
        for row in shown:
            kinds[row["kind"]].append(row)
        peaks = sorted({row["peak_gb_s"] for row in known if _positive(row["peak_gb_s"])}, reverse=True)
        device = job.figures.architecture
        return cls({kind: of for kind, of in kinds.items() if of}, peaks, device.name if device else None, notes)


def _positive(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value > 0
