"""Operations that may be called are those that reach nothing but tensors."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from recorded_calls import NOTHING, call, scalar

from tracelens_graph.extensions.replayer import Replayer
from tracelens_graph.replay.allowed import REACHES_OUT, reaches_out, why_not
from tracelens_graph.replay.planning import plan_of
from tracelens_graph.replay.replay_plan import CannotReplay
from tracelens_graph.replay.schemas import parse


def why(call: str, known: Sequence[Replayer] = ()) -> str:
    op, _, overload = call.rpartition(".")
    return why_not(op.replace(".", "::"), "" if overload == "default" else overload, known)


@pytest.mark.parametrize("name", ["aten.mm.default", "aten.add.Tensor", "aten.div.Tensor_mode", "prims.sin.default"])
def test_operations_of_pytorch(name: str) -> None:
    assert why(name) == ""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("aten.from_file.default", REACHES_OUT),
        ("aten.from_file.out", REACHES_OUT),
        ("aten.save.default", "neither"),
        ("aten.mm.other", "neither"),
        ("acme.fused.default", "neither"),
        ("inductor._reinterpret_tensor.default", "neither"),
        ("aten.mm", "neither"),
        ("mm", "neither"),
    ],
)
def test_others_are_refused(name: str, reason: str) -> None:
    assert reason in why(name)


def test_operations_of_an_extension() -> None:
    known = [Replayer("acme::fused(Tensor x) -> Tensor"), Replayer("acme::dump(Tensor x, str out_file) -> ()")]
    assert why("acme.fused.default", known) == ""
    assert "neither" in why("acme.fused.other", known)
    assert "neither" in why("acme.more.default", known)
    assert REACHES_OUT in why("acme.dump.default", known)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("a::b(str filename) -> ()", True),
        ("a::b(str? save_path=None) -> ()", True),
        ("a::b(str[] cmd) -> ()", True),
        ("a::save(Tensor x, str to) -> ()", True),
        ("a::load(Storage x) -> ()", True),
        ("a::save(Tensor x) -> ()", False),
        ("a::einsum(str equation, int[]? path=None) -> ()", False),
        ("a::b(str profile) -> ()", False),
    ],
)
def test_names_of_parameters_tell(schema: str, expected: bool) -> None:
    assert reaches_out(parse(schema)) is expected


def test_no_plan_is_made_of_them() -> None:
    recorded = call("from_file", NOTHING, scalar("True"), scalar("8"), *[NOTHING] * 4)
    with pytest.raises(CannotReplay, match=REACHES_OUT):
        plan_of(recorded)
