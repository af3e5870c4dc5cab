"""Custom operations: planned by the schema of a replayer, which says what registers them."""

from __future__ import annotations

from typing import Any

import pytest
from calls_to_replay import MM, calls
from replay_plans import plan_in

from tracelens_graph.errors import ExtensionError
from tracelens_graph.extensions.extension import Extension
from tracelens_graph.extensions.replayer import Replayer
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.replay_plan import Fill, TensorValue
from tracelens_graph.replay.custom import plan_custom
from tracelens_graph.replay.plan_json import NotAPlanError, plan_from_json, plan_json
from tracelens_graph.replay.planned import Plans, planned
from tracelens_graph.replay.replay_plan import CannotReplay
from tracelens_graph.replay.signatures import charge_all, signatures

FUSED = "my::fused(Tensor a, Tensor b) -> Tensor"
UID = 10
"""Of the call in the trace."""


@pytest.fixture
def core() -> Core:
    return load_core(calls())


def test_a_replayer_gives_schema_imports_and_fills(core: Core) -> None:
    replayer = Replayer(FUSED, imports=["my.ops"], fills={"b": {"fill": "integers", "high": 8}})
    made = plan_custom(core, core.row(UID), replayer)
    first, second = (one.value for one in made.positional)
    assert isinstance(first, TensorValue)
    assert isinstance(second, TensorValue)
    assert (made.op, made.schema, made.imports) == ("my::fused", FUSED, ("my.ops",))
    assert (first.shape, first.fill, second.fill) == ((8, 16), Fill(), Fill("integers", {"high": 8}))
    assert made.recorded.dims == ((8, 16), (16, 4))
    assert MM["Input_Dims"] == [[8, 16], [16, 4]]


@pytest.mark.parametrize(
    ("schema", "fills", "said"),
    [
        ("my::fused(Tensor) -> Tensor", {}, "no parameter of an operator"),
        (FUSED, {"c": {}}, "fills c, and its schema has a, b"),
        (FUSED, {"a": {"fill": "nonsense"}}, "nothing fills by 'nonsense'"),
        (FUSED, {"a": {"fill": "zeros", "high": 3}}, "zeros takes no high"),
    ],
)
def test_what_is_wrong_with_a_replayer_is_told(core: Core, schema: str, fills: Any, said: str) -> None:
    with pytest.raises(ExtensionError, match=f"the replayer of my::fused.*{said}"):
        plan_custom(core, core.row(UID), Replayer(schema, fills=fills))


def test_a_schema_that_does_not_fit_the_trace_is_refused(core: Core) -> None:
    with pytest.raises(CannotReplay, match="schema has 1 arguments, the trace 2; the schema of the version"):
        plan_custom(core, core.row(UID), Replayer("my::fused(Tensor a) -> Tensor"))
    with pytest.raises(CannotReplay, match="no known schema takes these arguments"):
        plan_custom(core, core.row(UID), Replayer("my::fused(Tensor a, int b) -> Tensor"))


def test_windows_with_the_extension_plan_it(core: Core) -> None:
    row = core.row(UID)
    assert planned(core, row).reason == "custom op"
    extension = Extension(replayers={"my::fused": Replayer(FUSED)})
    w = extension.of(core)
    plans = Plans(signatures(charge_all(w)))
    place = plans.signatures.names.index("my::fused")
    assert plans[place].plan is not None
    # What it launches itself is charged to it, what the operation below it launches to that one.
    assert plans.signatures.charged_ns[place] == 37_000


def test_programs_import_its_modules_and_nothing_else(core: Core) -> None:
    replayer = Replayer(FUSED, imports=["my.ops", "other"])
    made = plan_custom(core, core.row(UID), replayer)
    source = made.script()
    assert plan_in(source)["imports"] == ["my.ops", "other"]
    assert "needs PyTorch and my.ops, other." in source
    assert plan_from_json(plan_json(made)) == made
    with pytest.raises(NotAPlanError, match="imports"):
        plan_from_json(plan_json(made) | {"imports": ["my.ops; import os"]})
