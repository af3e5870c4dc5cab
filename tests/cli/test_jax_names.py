"""What runs of JAX are called where nobody names them."""

from __future__ import annotations

import pytest

from tracelens_graph.cli.traces import names_of

RUN = "plugins/profile/2025_07_01_23_00_36"


@pytest.mark.parametrize(
    ("runs", "names"),
    [
        ([f"jax-run/{RUN}/host.xplane.pb", f"jax-run2/{RUN}/host.xplane.pb"], ["jax-run", "jax-run2"]),
        # Two runs of one folder are told apart by their times.
        (
            [f"p/{RUN}/host.xplane.pb", "p/plugins/profile/2026_01_01_00_00_00/host.xplane.pb"],
            ["2025_07_01_23_00_36", "2026_01_01_00_00_00"],
        ),
        (["a/rank0.json", "b/rank0.json"], ["a", "b"]),
        ([f"p/{RUN}/a.xplane.pb", f"q/{RUN}/b.xplane.pb"], ["a.xplane.pb", "b.xplane.pb"]),
    ],
)
def test_the_shortest_that_tells(runs: list[str], names: list[str]) -> None:
    assert names_of(runs) == names
