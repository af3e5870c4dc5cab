"""Layers that differ from their equals: which they are, and that what they do is one place."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest
from call_trees import FORWARD, Call, launch, load, module, op

from tracelens_graph.analyses.alignment.difference import Diff, diff
from tracelens_graph.analyses.alignment.places import Place
from tracelens_graph.analyses.alignment.reasons import Reason
from tracelens_graph.analyses.alignment.rules import Reasons
from tracelens_graph.graph.core import Core

LAYERS = 6


def layer(number: int, us: float = 1.0, more: Sequence[Call] = (), dtype: str = "float", kernel: str = "add") -> Call:
    sizes = {"Input Dims": [[8, 8], [8, 8]], "Input type": [dtype, dtype]}
    return module(
        f"Layer_{number}",
        op("aten::mm", launch("gemm", 20 * us), **sizes),
        module(f"Act_{number}", op("aten::relu", launch("relu", 5 * us))),
        *more,
        op("aten::add", launch(kernel, 7 * us)),
    )


def net(*layers: Call) -> Core:
    return load({FORWARD: [module("Net_0", op("aten::embedding", launch("embedding", 9.0)), *layers)]})


def compared(slow: Collection[int] = (), factor: float = 3.0, all_by: float = 1.0) -> Diff:
    """A model against itself with some slow layers."""
    others = (layer(k, all_by * (factor if k in slow else 1.0)) for k in range(LAYERS))
    return diff(net(*map(layer, range(LAYERS))), net(*others))


def changed(found: Diff) -> list[tuple[Place, Reason, str]]:
    reasons = Reasons(found)
    whys = [(place, *reasons.of(place)) for place in found.places]
    return [one for one in whys if one[1] is not Reason.same]


@pytest.mark.parametrize(
    ("slow", "named"), [({4}, "1 of 6: layer 4 (Layer_4)"), ({1, 3}, "2 of 6: layers 1, 3 (Layer)")]
)
def test_slow_layers_are_one_place(slow: set[int], named: str) -> None:
    found = compared(slow)
    ((place, reason, text),) = changed(found)
    assert reason is Reason.outlier
    assert place.names == ("nn.Module: Layer", "nn.Module: Layer")
    assert place.modules == ("Net",)
    assert place.times == len(slow)
    assert place.ns == (len(slow) * 32_000, len(slow) * 96_000)
    assert f"{named}, 3.00x as long, the others as before" in text
    assert "aten::mm (+" in text


@pytest.mark.parametrize("slow", [(), {2}, {0, 5}])
def test_places_add_up_and_hold_every_leaf_once(slow: Collection[int]) -> None:
    found = compared(slow)
    for side, forest in enumerate(found.alignment.sides):
        assert sum(place.ns[side] for place in found.places) == int(forest.ns.sum())
        assert sorted(leaf for place in found.places for leaf in place.leaves(side)) == [*range(forest.leaves)]


def test_a_slow_layer_stands_out_where_all_take_longer() -> None:
    found = compared({3}, factor=2.0, all_by=1.2)
    layers = [(place, text) for place, _, text in changed(found) if place.names[0] == "nn.Module: Layer"]
    assert len(layers) == 1
    assert "1 of 6: layer 3 (Layer_3), 2.40x as long, the others 1.20x" in layers[0][1]


def test_one_slow_call_of_a_layer_stays_at_its_place() -> None:
    others = [layer(k) for k in range(LAYERS)]
    others[2].calls[0].calls[0].kernel_us = 60.0
    ((place, reason, text),) = changed(diff(net(*map(layer, range(LAYERS))), net(*others)))
    assert (place.names[0], place.times, reason) == ("aten::mm", LAYERS, Reason.outlier)
    assert "1 of 6: layer 2 (Layer_2), 3.00x" in text


OTHERWISE: dict[str, tuple[dict[str, Any], Reason]] = {
    "inserted": ({"more": [op("mine::scale", launch("scale", 3.0))]}, Reason.only_one),
    "retyped": ({"dtype": "half"}, Reason.other_types),
    "another kernel": ({"kernel": "quick_add"}, Reason.other_kernel),
}


@pytest.mark.parametrize("what", OTHERWISE)
def test_other_work_of_one_layer_says_which(what: str) -> None:
    how, expected = OTHERWISE[what]
    a, b = net(*map(layer, range(LAYERS))), net(*(layer(k, **(how if k == 4 else {})) for k in range(LAYERS)))
    for first, second in ((a, b), (b, a)):
        ((_, reason, text),) = changed(diff(first, second))
        assert reason is expected
        assert text.startswith("1 of 6: layer 4 (Layer_4): ")


def test_the_same_change_in_all_layers_names_none() -> None:
    others = (layer(k, more=[op("mine::scale", launch("scale", 3.0))]) for k in range(LAYERS))
    ((place, _, text),) = changed(diff(net(*map(layer, range(LAYERS))), net(*others)))
    assert place.times == LAYERS
    assert "layer" not in text


def test_which_of_equal_layers_is_gone_is_not_known() -> None:
    ((_, _, text),) = changed(diff(net(*map(layer, range(LAYERS))), net(*map(layer, range(LAYERS - 1)))))
    assert "Layer_" not in text
