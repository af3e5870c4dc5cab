"""What PyTorch was in during a call shows in what it calls: autocast calls an op again, others call nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from recorded_calls import Around, call, tensor, tensors

from tracelens_graph.replay.modes import modes
from tracelens_graph.replay.plan_json import plan_from_json
from tracelens_graph.replay.planning import plan_of
from tracelens_graph.replay.replay_plan import Recorded


class Traced(Around):
    """What is below a call in a trace: names, of which the last may be recorded with arguments."""

    is_traced = True

    def __init__(self, *names: str, last: Recorded | None = None, without_gradients: bool = False) -> None:
        super().__init__(names)
        self._last, self._off = last or Recorded(), without_gradients

    def calls_below(self, under: str = "") -> Sequence[tuple[str, Recorded]]:
        return [(name, self._last) for name in self.children]

    @property
    def is_without_gradients(self) -> bool:
        return self._off


def halves(*shapes: tuple[int, ...], dtype: str = "c10::BFloat16") -> Recorded:
    return Recorded(shapes, (dtype,) * len(shapes))


LEFT, RIGHT = tensor(2, 3), tensor(3, 4)


@pytest.mark.parametrize(
    ("below", "found"),
    [
        (Traced("aten::to", "aten::to", "aten::mm", last=halves((2, 3), (3, 4))), ("autocast bfloat16",)),
        (Traced("aten::to", "aten::mm", last=halves((2, 3), (3, 4), dtype="c10::Half")), ("autocast float16",)),
        (Traced("aten::to", "aten::mm", last=halves((2, 3), (3, 4), dtype="float")), ("autocast bfloat16",)),
        (Traced("aten::mm", last=halves((1, 3), (3, 4))), ()),
        (Traced("aten::to", "aten::clone", "aten::mm", last=halves((2, 3), (3, 4))), ()),
        (Traced(), ()),
    ],
)
def test_autocast_calls_an_op_again(below: Traced, found: tuple[str, ...]) -> None:
    assert modes(call("mm", LEFT, RIGHT, around=below)) == found


def test_lists_are_cast_too() -> None:
    below = Traced("aten::to", "aten::cat", last=Recorded((((2,), (2,)), ()), ("TensorList", "Scalar")))
    made = call("cat", tensors((2,), (2,)), ((), "Scalar", (), "0"), around=below)
    assert modes(made) == ("autocast bfloat16",)


def test_gradients_that_are_off_and_a_call_below_autograd() -> None:
    assert modes(call("linear", LEFT, RIGHT, ((), "", (), ""), around=Traced(without_gradients=True))) == ("no_grad",)
    assert modes(call("mm", LEFT, RIGHT, around=Traced(without_gradients=True))) == ()
    assert modes(call("detach", LEFT, around=Traced())) == ("below_autograd",)
    assert modes(call("detach", LEFT, around=Traced("detach"))) == ()
    assert modes(call("detach", LEFT)) == ()


def test_modes_are_in_programs_and_in_json() -> None:
    made = plan_of(call("mm", LEFT, RIGHT, around=Traced("aten::to", "aten::mm", last=halves((2, 3), (3, 4)))))
    assert plan_from_json(made.json()) == made
    assert "runs under autocast bfloat16" in made.script()
    assert '"modes": ["autocast bfloat16"]' in made.script()
