"""Views of conjugates show in copies that ops make of them."""

from __future__ import annotations

import pytest
from recorded_calls import Around, call, listed, scalar, tensor

from tracelens_graph.replay.replay_plan import TensorValue
from tracelens_graph.replay.planning import plan_of
from tracelens_graph.replay.replay_plan import Recorded

COMPLEX = "c10::complex<float>"
LEFT, RIGHT = tensor(2, 3, dtype=COMPLEX), tensor(3, 4, dtype=COMPLEX)
CLONE, RESOLVE = "aten::clone", "aten::resolve_conj"


class Copying(Around):
    """A copy of a tensor below a call."""

    def recorded_of(self, child: str) -> Recorded | None:
        return Recorded(((2, 3), ()), (COMPLEX, ""), ((3, 1), ()), ("", "")) if child == CLONE else None


@pytest.mark.parametrize(
    ("op", "arguments", "below", "views"),
    [
        ("mm", [LEFT, RIGHT], (RESOLVE, CLONE, RESOLVE), [True, False]),
        ("mm", [LEFT, RIGHT], (RESOLVE, RESOLVE, "aten::addmm", CLONE), [False, False]),
        ("mul", [LEFT, LEFT], (CLONE, "aten::empty_like"), [False, True]),
        ("add_", [LEFT, LEFT, scalar("1")], (CLONE,), [False, True]),
        ("mul", [LEFT, LEFT], (), [False, False]),
        ("mul", [tensor(2, 3), tensor(2, 3)], (CLONE,), [False, False]),
        ("resolve_conj", [LEFT], (CLONE,), [True]),
        ("_fft_c2r", [LEFT, listed("[1]"), scalar("1"), scalar("4")], (CLONE, "aten::empty"), [True]),
        ("imag", [LEFT], ("aten::_conj", "aten::view_as_real"), [True]),
        ("imag", [LEFT], ("aten::view_as_real",), [False]),
        ("linalg_cholesky_ex", [LEFT, scalar("False"), scalar("False")], (CLONE,), [False]),
        ("clone", [LEFT, scalar("0")], (CLONE,), [False]),
    ],
)
def test_copies(
    op: str, arguments: list[tuple[object, str, object, str]], below: tuple[str, ...], views: list[bool]
) -> None:
    made = plan_of(call(op, *arguments, around=Copying(below)))
    assert [one.value.conj for one in made.arguments if isinstance(one.value, TensorValue)] == views
    assert ('"conj": true' in made.script()) is any(views)
