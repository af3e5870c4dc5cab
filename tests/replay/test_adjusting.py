"""What children and kernels show of arguments: modes, views of conjugates."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from recorded_calls import Around, call, listed, scalar, tensor, tensors

from tracelens_graph.replay.adjusting import modes
from tracelens_graph.replay.plan_json import plan_from_json
from tracelens_graph.replay.planning import plan_of
from tracelens_graph.replay.replay_plan import Recorded, TensorValue


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


def test_an_op_within_another_is_cast() -> None:
    """`einsum` is not cast, but the product that it calls."""
    product = [tensor(1, 2, 3), tensor(1, 3, 4)]

    def around(dtype: str, below: tuple[str, ...]) -> Around:
        class Einsum(Around):
            is_traced = True

            def recorded_of(self, child: str) -> Recorded:
                return call(child, *product).recorded

            def calls_below(self, under: str = "") -> Sequence[tuple[str, Recorded]]:
                listed = below if under else ("aten::permute", "aten::bmm")
                return [(name, halves((1, 2, 3), (1, 3, 4), dtype=dtype)) for name in listed]

        return Einsum(("aten::permute", "aten::bmm", *below))

    def found(dtype: str, *below: str) -> tuple[str, ...]:
        return modes(call("einsum", tensors((2, 3), (3, 4)), around=around(dtype, below)))

    assert found("c10::Half", "aten::to", "aten::bmm") == ("autocast float16",)
    assert found("c10::Half", "aten::bmm") == ("autocast float16",)
    assert found("float", "aten::to", "aten::bmm") == ()
    assert found("c10::Half", "aten::mul", "aten::bmm") == ()


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
    assert "runs under autocast bfloat16" in made.script(full=True)
    assert '"modes": ["autocast bfloat16"]' in made.script(full=True)
    assert "with torch.autocast(torch.device(device).type, dtype=torch.bfloat16):" in made.script()


# --- Views of conjugates show in copies that ops make of them

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
    assert ('"conj": true' in made.script(full=True)) is any(views)
    assert (".conj()" in made.script()) is any(views)
