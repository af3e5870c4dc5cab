"""How plans are mapped onto other schemas; with PyTorch, that they run and that rules fill what they say."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from msgspec.structs import replace
from recorded_calls import NOTHING, call, scalar, tensor

from tracelens_graph.errors import CannotReplay, NoTorchError
from tracelens_graph.replay.planning import plan_of
from tracelens_graph.replay.replay_plan import RULES, Argument, Fill, Named, ReplayPlan, TensorValue
from tracelens_graph.replay.run import made, run
from tracelens_graph.replay.short_program import short_program

HAS_TORCH = find_spec("torch") is not None

SOFTMAX = plan_of(call("softmax", tensor(4, 5), scalar("-1"), NOTHING))


if HAS_TORCH:
    import torch

    def test_what_this_pytorch_does_not_have() -> None:
        other = replace(SOFTMAX, overload="other")
        with pytest.raises(CannotReplay, match="the installed PyTorch has no such operator"):
            run(other, "cpu")
        more = replace(SOFTMAX, keyword=(Argument("fast", "bool", True),))
        with pytest.raises(CannotReplay, match="with the parameter fast"):
            run(more, "cpu")

    def test_a_plan_runs() -> None:
        assert run(SOFTMAX, "cpu").sum().item() == pytest.approx(4)
        assert SOFTMAX.run("cpu").shape == (4, 5)

    def test_tensors_are_as_planned() -> None:
        found = made(TensorValue((3, 2), "int64", (1, 4), Fill("integers", {"high": 5}), offset=2, reach=30))
        assert (found.shape, found.stride(), found.storage_offset()) == ((3, 2), (1, 4), 2)
        assert found.untyped_storage().nbytes() == 30 * 8
        assert 0 <= found.min() <= found.max() < 5
        spread = made(TensorValue((4, 3), "float16", (0, 1)))
        assert spread.stride() == (0, 1)
        first, second = (made(TensorValue((4,), "float32", (1,), storage=0, offset=at)) for at in (0, 2))
        assert first.data_ptr() + 8 == second.data_ptr()

    @pytest.mark.parametrize(
        ("fill", "numbers"),
        [
            (Fill("zeros"), [0, 0, 0, 0, 0, 0]),
            (Fill("constant", {"value": 7}), [7, 7, 7, 7, 7, 7]),
            (Fill("rising", {"high": 10}), [0, 2, 4, 6, 8, 10]),
            (Fill("rising", {"high": 4, "row": 3}), [0, 2, 4, 0, 2, 4]),
            (Fill("starts", {"high": 12}), [0, 2, 4, 6, 8, 10]),
            (Fill("starts", {"high": 12, "skip": 1}), [2, 4, 6, 8, 10, 12]),
            (Fill("parts", {"total": 20}), [4, 4, 3, 3, 3, 3]),
            (Fill("falling", {"total": 12, "most": 3}), [3, 3, 3, 1, 1, 1]),
            (Fill("counted", {"row": 3, "start": 1}), [1, 2, 3, 1, 2, 3]),
        ],
    )
    def test_rules_fill_what_they_say(fill: Fill, numbers: list[int]) -> None:
        assert made(TensorValue((6,), "int64", fill=fill)).tolist() == numbers

    @pytest.mark.parametrize(
        ("rule", "dtype"),
        [(rule, dtype) for rule in sorted(RULES) for dtype in ("float32", "bfloat16", "int64")
         if (rule, dtype) != ("normal", "int64")],
    )  # fmt: skip
    def test_short_programs_make_the_same(rule: str, dtype: str) -> None:
        options = {"high": 9, "total": 20, "most": 3, "row": 4, "count": 5, "value": 2, "size": 4}
        fill = Fill(rule, {name: value for name, value in options.items() if name in RULES[rule]})
        tensor = TensorValue((2, 4, 4), dtype, fill=fill)
        schema = "aten::relu(Tensor self) -> Tensor"
        source = short_program(ReplayPlan("aten::relu", "", schema, (Argument("self", "Tensor", tensor),)))
        line = next(one.strip() for one in source.splitlines() if one.startswith("    input = "))
        there = {"torch": torch, "device": "cpu"}
        torch.manual_seed(0)
        exec(line, there)
        torch.manual_seed(0)
        found, written = made(tensor), there["input"]
        assert (written.shape, written.dtype) == (found.shape, torch.bool if rule == "mask" else found.dtype)
        assert torch.equal(written.to(found.dtype).view(torch.uint8), found.view(torch.uint8))

    def test_matrices_can_be_inverted() -> None:
        many = made(TensorValue((3, 4, 4), "float64", fill=Fill("matrices", {"size": 4})))
        assert (torch.linalg.eigvalsh(many) > 0).all()

    @pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
    @pytest.mark.parametrize("name", ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr"])
    def test_sparse_tensors(name: str) -> None:
        found = made(TensorValue((6, 8), "float32", layout=name, fill=Fill("normal", {"entries": 12})))
        assert found.layout == getattr(torch, name)
        assert found.to_dense().count_nonzero() > 0

    def test_a_tensor_that_autograd_follows_may_be_written() -> None:
        found = made(TensorValue((3,), "float32", grad=True))
        assert found.requires_grad
        found.mul_(2)

    def test_named_values() -> None:
        named = [Named("dtype", "bfloat16"), Named("memory_format", "channels_last"), Named("device", "cpu")]
        assert [made(one) for one in named] == [torch.bfloat16, torch.channels_last, torch.device("cpu")]
        assert isinstance(made(Named("generator")), torch.Generator)

    def test_tensors_that_are_told_alike_are_one() -> None:
        told = [TensorValue((2, 3), "float32", storage=0), TensorValue((2, 3), "float32", storage=0, offset=1)]
        one, same, other = made((told[0], told[0], told[1]))
        assert one is same
        assert other is not one
        assert other.untyped_storage().data_ptr() == one.untyped_storage().data_ptr()

    def test_views_of_conjugates() -> None:
        assert made(TensorValue((3,), "complex64", conj=True)).is_conj()

    def test_modes() -> None:
        plan = plan_of(call("mm", tensor(2, 3), tensor(3, 4)))
        assert run(replace(plan, modes=("autocast bfloat16", "no_grad")), "cpu").dtype == torch.bfloat16
        assert torch.is_grad_enabled()
        assert not torch.is_autocast_enabled("cpu")

else:

    def test_without_torch_an_error_says_what_to_do() -> None:
        with pytest.raises(NoTorchError, match="write a script"):
            run(SOFTMAX)
