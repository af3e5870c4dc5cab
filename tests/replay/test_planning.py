"""Plans of calls: which arguments, which have none, and those of custom operations."""

from __future__ import annotations

from dataclasses import replace as with_field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from recorded_calls import MM, NOTHING, Around, call, calls, listed, scalar, tensor, tensors

from corpus import kineto_traces, loaded, parametrize
from tracelens_graph.errors import CannotReplay, ExtensionError
from tracelens_graph.execution.sides import Argument as Observed
from tracelens_graph.extensions.extension import Extension, Replayer
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.calls import UNREADABLE, traced_call
from tracelens_graph.replay.custom.lookup import replayers_of
from tracelens_graph.replay.custom.planning import plan_custom
from tracelens_graph.replay.plan_json import plan_from_json, plan_json
from tracelens_graph.replay.planned import Plans, planned
from tracelens_graph.replay.planning import plan_of
from tracelens_graph.replay.replay_plan import Argument, Fill, Named, ReplayPlan, TensorValue
from tracelens_graph.replay.signatures import charge, charge_all, signatures, with_schema


def values(made: ReplayPlan) -> dict[str, Any]:
    return {one.name: one.value for one in made.arguments}


def test_a_product_of_matrices() -> None:
    made = plan_of(call("mm", tensor(2, 3, dtype="c10::BFloat16"), tensor(3, 4, dtype="c10::BFloat16", strides=(1, 3))))
    assert (made.op, made.overload, made.keyword, made.assumed) == ("aten::mm", "", (), ())
    assert values(made) == {
        "self": TensorValue((2, 3), "bfloat16", (3, 1)),
        "mat2": TensorValue((3, 4), "bfloat16", (1, 3)),
    }


def test_positional_and_keyword_arguments_of_every_type() -> None:
    made = plan_of(call("empty", listed("[2, 3]"), scalar("15"), scalar("0"), NOTHING, scalar("False"), scalar("2")))
    assert [one.name for one in made.positional] == ["size"]
    assert [one.name for one in made.keyword] == ["dtype", "layout", "device", "pin_memory", "memory_format"]
    assert list(values(made).values()) == [
        (2, 3), Named("dtype", "bfloat16"), Named("layout", "strided"), Named("device", "device"), False,
        Named("memory_format", "channels_last"),
    ]  # fmt: skip


def test_tensors_without_elements_overlapping_and_undefined() -> None:
    made = values(
        plan_of(call("addmm", tensor(0), tensor(4, 3, strides=(0, 1)), tensor(3, 0), scalar("1"), scalar("1.")))
    )
    assert made["self"].shape == (0,)
    assert made["mat1"].strides == (0, 1)
    assert (type(made["beta"]), type(made["alpha"])) == (int, float)
    assert values(plan_of(call("linear", tensor(2, 3), tensor(4, 3), NOTHING)))["bias"] is None


def test_without_strides_tensors_are_dense() -> None:
    made = call("mm", tensor(2, 3), tensor(3, 4))
    bare = type(made.recorded)(made.recorded.dims, made.recorded.types)
    dense = plan_of(type(made)(made.op, bare))
    assert values(dense)["self"] == TensorValue((2, 3), "float32")
    assert [one.partition(";")[0] for one in dense.assumed] == [
        f"{name}: strides are not recorded" for name in ("self", "mat2")
    ]


def test_a_view_reaches_as_far_as_its_result() -> None:
    made = values(plan_of(call("as_strided", tensor(2, 2), listed("[3, 3]"), listed("[10, 2]"), scalar("5"))))
    assert made["self"].reach == 5 + 2 * 10 + 2 * 2 + 1


def test_a_number_of_python_is_passed_as_one() -> None:
    made = plan_of(call("mul", tensor(4, dtype="c10::Half"), tensor(dtype="double")))
    assert values(made)["other"] == 2.0
    assert made.assumed == ("other: a Python number, as far as types and sizes show; its value is not recorded",)
    other = values(plan_of(call("remainder", tensor(4, dtype="long int"), tensor(dtype="long int"))))["other"]
    assert isinstance(other, TensorValue)  # PyTorch takes no number there
    assert other.on_cpu
    both = values(plan_of(call("mul", tensor(), tensor())))["other"]
    assert isinstance(both, TensorValue)


@pytest.mark.parametrize(("casts", "numbers"), [(1, [False, True]), (2, [True, True])])
def test_a_number_beside_a_tensor_without_dimensions(casts: int, numbers: list[bool]) -> None:
    class Traced(Around):
        is_traced = True

    operands = (tensor(dtype="double"), tensor(dtype="long int"))
    made = values(plan_of(call("mul", *operands, around=Traced(("aten::to", "aten::copy_") * casts))))
    assert [not isinstance(one, TensorValue) for one in made.values()] == numbers


@pytest.mark.parametrize(
    ("below", "layout"), [(("aten::is_coalesced",), "sparse_coo"), (("aten::alias",), "sparse_csr")]
)
def test_compressed_tensors_are_never_asked_whether_they_are_coalesced(below: tuple[str, ...], layout: str) -> None:
    class Traced(Around):
        is_traced = True

    made = plan_of(call("values", ((6, 8), "float", (), ""), around=Traced(below)))
    assert values(made)["self"].layout == layout


@pytest.mark.parametrize(
    ("op", "around", "value", "is_assumed"),
    [
        ("pad", Around(("aten::reflection_pad1d",)), "reflect", False),
        ("pad", Around(("aten::constant_pad_nd", "aten::fill_")), "constant", False),
        ("pad", Around(), "constant", True),
        ("gelu", Around(kernels=("GeluCUDAKernelImpl(TensorIteratorBase&, GeluType)::{lambda()#1}",)), "tanh", False),
        ("gelu", Around(), "none", True),
    ],
)
def test_strings_are_chosen_by_what_is_below(op: str, around: Around, value: str, is_assumed: bool) -> None:
    arguments = [tensor(1, 4, 4)] + ([listed("[1, 1]"), NOTHING, NOTHING] if op == "pad" else [NOTHING])
    made = plan_of(call(op, *arguments, around=around))
    assert values(made)["mode" if op == "pad" else "approximate"] == value
    assert bool(made.assumed) is is_assumed


def test_lists_take_their_dtype_from_nearby() -> None:
    made = plan_of(call("cat", tensors((2, 3), (4, 3)), scalar("0"), around=Around(near="bfloat16")))
    assert [one.dtype for one in values(made)["tensors"]] == ["bfloat16", "bfloat16"]
    assert "nearby" in made.assumed[0]
    into = plan_of(call("cat", tensors((2,), (4,)), scalar("0"), tensor(6, dtype="double")))
    assert [one.dtype for one in values(into)["tensors"]] == ["float64", "float64"]
    assert into.assumed == ()


def test_sparse_tensors_have_the_entries_that_they_were_made_with() -> None:
    class Made(Around):
        def sparse_made(self, shape: tuple[int, ...]) -> tuple[int, int] | None:
            return (1, 7) if shape == (40, 16) else None

    def options(op: str, shape: tuple[int, ...], *children: str) -> dict[str, Any]:
        return dict(values(plan_of(call(op, (shape, "float", (), ""), around=Made(children))))["self"].fill.options)

    assert options("neg", (40, 16)) == {"entries": 7, "dense": 1}
    assert options("neg", (40, 10)) == {"entries": 40}
    assert options("coalesce", (8,), "aten::_coalesce") == {"entries": 2, "coalesced": False}
    assert options("coalesce", (40, 16)) == {"entries": 7, "dense": 1}


def test_an_operand_that_makes_another_fold_is_followed() -> None:
    operands = (tensor(2, 3, 4, strides=(4, 8, 1)), tensor(4, 5))
    folded = values(plan_of(call("matmul", *operands, around=Around(("aten::t", "aten::reshape")))))["other"]
    expanded = values(plan_of(call("matmul", *operands, around=Around(("aten::expand",)))))["other"]
    assert (folded.grad, expanded.grad) == (True, False)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (call("cat", ((), "TensorList", (), ""), scalar("0")), "lists of more than 30 tensors are not recorded"),
        (call("view", tensor(2), NOTHING), "lists of numbers are not recorded"),
        (call("split_with_sizes", tensor(2), NOTHING, scalar("0")), "lists of more than 30 numbers are not recorded"),
        (call("index", tensor(2), NOTHING), "lists of optional tensors are not recorded"),
        (call("neg", tensor(2, dtype="strange")), "element type 'strange' is not one of PyTorch's"),
        (call("neg", ((-1,), "float", (1,), "")), "sizes of a tensor cannot be read"),
        (call("einsum", NOTHING, tensors((2, 3)), NOTHING), "a string is not recorded"),
    ],
)
def test_what_cannot_be_made_says_why_and_what_would_help(made: Any, reason: str) -> None:
    with pytest.raises(CannotReplay) as raised:
        plan_of(made)
    assert raised.value.reason == reason


def test_index_tensors_follow_from_the_values_that_are_put() -> None:
    made = plan_of(call("_index_put_impl_", tensor(8, 6, 4), NOTHING, tensor(8, 5), scalar("True"), scalar("True")))
    listed_ = values(made)["indices"]
    assert [one and one.shape for one in listed_] == [None, (5,), (5,)]
    assert [one and one.fill.options for one in listed_] == [None, {"high": 6}, {"high": 4}]
    assert made.assumed


def test_a_mask_among_indices_has_as_many_places_as_there_are_values() -> None:
    mask = Observed([[3, 7, 0, 60, 1, "cpu"]], [[10, 6]], "GenericList[Tensor(bool)]", [[6, 1]])
    told = [Observed(None, [], "None"), mask, *[Observed(None, [], "None")] * 3]
    put = call("_index_put_impl_", tensor(10, 6), NOTHING, tensor(22), scalar("True"), scalar("True"), observed=told)
    (made,) = values(plan_of(put))["indices"]
    assert (made.shape, made.fill) == ((10, 6), Fill("first", {"count": 22}))


def test_an_execution_trace_adds_storages_offsets_devices_and_strings() -> None:
    first = Observed([3, 7, 0, 4, 4, "cuda:0"], [4], "Tensor(float)", [1])
    second = Observed([4, 7, 1026, 4, 4, "cuda:0"], [4], "Tensor(float)", [1])
    made = plan_of(call("dot", tensor(4), tensor(4), observed=[first, second], has_gpu=True))
    assert [(one.storage, one.offset) for one in values(made).values()] == [(0, 0), (0, 1026)]
    alone = plan_of(call("neg", tensor(4), observed=[second], has_gpu=True))
    assert (values(alone)["self"].storage, values(alone)["self"].offset) == (None, 2)
    host = Observed([4, 9, 0, 4, 4, "cpu"], [4], "Tensor(float)", [1])
    observed = [first, host, Observed(False, [], "Bool")]
    copied = plan_of(call("copy_", tensor(4), tensor(4), scalar("False"), observed=observed, has_gpu=True))
    assert [one.on_cpu for one in list(values(copied).values())[:2]] == [False, True]
    told = [first, Observed("tanh", [], "String")]
    assert values(plan_of(call("gelu", tensor(4), NOTHING, observed=told)))["approximate"] == "tanh"


def test_lists_of_sparse_tensors_have_no_strides_but_where_the_execution_trace_has_dense_ones() -> None:
    one, other = [3, 7, 0, 6, 4, "cpu"], [4, 8, 0, 6, 4, "cpu"]
    told = Observed([one, other], [[2, 3], [2, 3]], "GenericList[Tensor(float),Tensor(float)]", [[], []])
    listed_ = (((2, 3), (2, 3)), "TensorList", ((), ()), "")
    made = values(plan_of(call("cat", listed_, scalar("0"), observed=[told, Observed(0, [], "Int")])))["tensors"]
    assert [part.layout for part in made] == ["sparse_coo", "sparse_coo"]
    sparse = Observed([3, 7, 0, 6, 4, "cpu"], [2, 3], "Tensor(float)")
    alone = values(plan_of(call("neg", ((2, 3), "float", (), ""), observed=[sparse], has_gpu=True)))["self"]
    assert (alone.layout, alone.storage, alone.on_cpu) == ("sparse_coo", None, False)


def test_an_execution_trace_has_lists_whole() -> None:
    one, other = [3, 7, 0, 4, 4, "cpu"], [4, 8, 0, 2, 8, "cpu"]
    listed_ = Observed(
        [one, other, "<None>"], [[4], [2], []], "GenericList[Tensor(float),Tensor(double),None]", [[1], [1], []]
    )
    axis = Observed(0, [], "Int")
    made = plan_of(call("cat", ((), "TensorList", (), ""), scalar("0"), observed=[listed_, axis]))
    assert [part and (part.shape, part.dtype) for part in values(made)["tensors"]] == [
        ((4,), "float32"), ((2,), "float64"), None,
    ]  # fmt: skip


MEANT_TO_BE_WHOLE = 99.0


@parametrize("path", [path for path in kineto_traces() if "tracelens" in path.parts])
def test_gpu_time_under_operators_is_planned(path: Path) -> None:
    core = loaded(path)  # the traces left out do not record values of arguments
    found = signatures(charge(core.everything, with_schema(core.everything)))
    lost: dict[str, float] = {}
    for row, name, ns in zip(found.rows.tolist(), found.names, found.charged_ns.tolist(), strict=True):
        made = planned(core, row, replayers_of(core.everything))
        if made.plan is None:
            lost[f"{name} at {row}: {made.why}"] = ns
    assert 100 * sum(lost.values()) <= (100 - MEANT_TO_BE_WHOLE) * max(found.charged_ns.sum(), 1), lost


# --- Calls that no machine can make, or whose records are no records, have no plan

BIG = 1 << 62
TOO_LARGE = "its tensors are larger than any memory"
NOT_GIVEN = "a tensor that it needs is not recorded"
FLOAT = tensor(4, 4)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (((None, "float", (4, 1), ""), FLOAT), "sizes of a tensor cannot be read"),
        ((("x", "float", (4, 1), ""), FLOAT), UNREADABLE),
        ((((1.5, 2), "float", (4, 1), ""), FLOAT), UNREADABLE),
        ((((True, 2), "float", (4, 1), ""), FLOAT), UNREADABLE),
        (((((4,) * 2, "a"), "float", (4, 1), ""), FLOAT), UNREADABLE),
        ((tensor(10**30, 1), FLOAT), UNREADABLE),
        ((tensor(4, 4, strides=(10**30, 1)), FLOAT), UNREADABLE),
        ((tensor(4, 4, strides=(4,)), FLOAT), UNREADABLE),
        ((tensor(4, 4, strides=(4, 1, 1)), FLOAT), UNREADABLE),
        ((tensor(4, 4, strides=(-4, 1)), FLOAT), UNREADABLE),
        ((((4, 4), "float", 7, ""), FLOAT), UNREADABLE),
        ((((4, 4), "float", ("a", "b"), ""), FLOAT), UNREADABLE),
        ((tensor(BIG, BIG, strides=(1, 1)), FLOAT), TOO_LARGE),
        ((tensor(4, 4, strides=(BIG, 1)), FLOAT), TOO_LARGE),
        ((tensor(*[1] * 65), FLOAT), TOO_LARGE),
        ((NOTHING, FLOAT), NOT_GIVEN),
        ((((4, 4), "", (4, 1), ""), FLOAT), NOT_GIVEN),
        ((FLOAT, ((4, 4), "", (4, 1), "")), NOT_GIVEN),
        ((NOTHING, NOTHING), NOT_GIVEN),
    ],
)
def test_products_that_cannot_be(arguments: tuple[Any, Any], reason: str) -> None:
    with pytest.raises(CannotReplay) as error:
        plan_of(call("mm", *arguments))
    assert error.value.reason == reason


@pytest.mark.parametrize("part", ["dims", "strides"])
@pytest.mark.parametrize("entries", [((4, 4),), ((4, 4),) * 3])
def test_as_many_sizes_and_strides_as_arguments(part: str, entries: tuple[Any, ...]) -> None:
    made = call("mm", FLOAT, FLOAT)
    with pytest.raises(CannotReplay, match=UNREADABLE):
        plan_of(with_field(made, recorded=replace(made.recorded, **{part: entries})))


@pytest.mark.parametrize(
    "arguments",
    [(FLOAT, FLOAT), (tensor(0, 4), tensor(4, 0)), (tensor(4, 4, strides=(0, 0)), FLOAT), (tensor(BIG >> 4, 1), FLOAT),
     (((4, 4), "float", (), ""), FLOAT), (((4, 4), "float", "", ""), FLOAT)],
)  # fmt: skip
def test_what_can_be_is_read_again(arguments: tuple[Any, Any]) -> None:
    made = plan_of(call("mm", *arguments))
    assert plan_from_json(plan_json(made)) == made


def test_bytes_of_tensors_that_share_memory() -> None:
    shapes = [((8,), 0), ((4,), 0), ((2,), 1), ((16,), None), ((16,), None)]
    values = tuple(TensorValue(shape, "float32", storage=storage) for shape, storage in shapes)
    arguments = (Argument("a", "Tensor[]", values), Argument("b", "int", 3))
    assert ReplayPlan("a::b", "", "a::b(Tensor[] a, int b) -> ()", arguments).bytes == 4 * (8 + 2 + 32)


# --- Custom operations: planned by the schema of a replayer, which says what registers them

FUSED = "my::fused(Tensor a, Tensor b) -> Tensor"
UID = 10
"""Of the call in the trace."""


@pytest.fixture
def core() -> Core:
    return load_core(calls())


def test_a_replayer_gives_schema_imports_and_fills(core: Core) -> None:
    replayer = Replayer(FUSED, imports=["my.ops"], fills={"b": {"fill": "integers", "high": 8}})
    made = plan_custom(traced_call(core, core.row(UID)), replayer)
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
        plan_custom(traced_call(core, core.row(UID)), Replayer(schema, fills=fills))


def test_windows_with_the_extension_plan_it(core: Core) -> None:
    row = core.row(UID)
    assert planned(core, row).reason == "custom op"
    extension = Extension(replayers={"my::fused": Replayer(FUSED)})
    w = extension.of(core)
    plans = Plans(signatures(charge_all(w)))
    place = plans.signatures.names.index("my::fused")
    assert plans[place].plan is not None
    assert plans.signatures.charged_ns[place] == 42_000
