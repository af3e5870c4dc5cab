from __future__ import annotations

import numpy as np
import pytest
from alignments import aligned, kernels, unmatched
from call_trees import BACKWARD, FORWARD, Call, launch, load, module, op, run
from trees_of_calls import call_of, model

from tracelens_graph.graph.core import Core


def training(layers: int, gone: int = -1) -> Core:
    """Equal layers, forward and backward, each op's backward found by its sequence number."""
    forward, backward = [], []
    for k in range(layers):
        if k != gone:
            work = [op(f"aten::{name}", call_of(name), seq=2 * k + i) for i, name in enumerate(("mm", "relu"))]
            forward.append(module(f"Layer_{k}", *work))
            backward += [
                run(f"{name}Backward0", call_of(f"{name}_back"), seq=2 * k + i) for i, name in enumerate(("mm", "relu"))
            ]
    calls: dict[tuple[int, int], list[Call]] = {
        FORWARD: [module("Net_0", *forward)], BACKWARD: backward[::-1]
    }  # fmt: skip
    return load(calls)


@pytest.mark.parametrize("gone", [0, 2, 5])
def test_backward_leaves_go_with_what_their_forward_leaves_are_matched_with(gone: int) -> None:
    found = aligned(training(6), training(6, gone))
    a, b = found.sides
    matched = found.leaves[0]
    # Backward leaves stand in the reverse order of forward ones.
    forward = [leaf for leaf, kernel in enumerate(kernels(a)) if not kernel.endswith("_back")]
    backward = [leaf for leaf, kernel in enumerate(kernels(a)) if kernel.endswith("_back")][::-1]
    back_b = [leaf for leaf, kernel in enumerate(kernels(b)) if kernel.endswith("_back")][::-1]
    assert len(forward) == len(backward) == 12
    for i, j in zip(forward, backward, strict=True):
        partner = int(matched[i])
        assert int(matched[j]) == (back_b[partner] if partner >= 0 else -1)
    assert [len(side) for side in unmatched(found)] == [4, 0]


def test_names_of_backward_ops_are_their_own_again_in_what_is_called() -> None:
    found = aligned(training(3), training(3))
    for side in found.sides:
        assert (side.name != side.called).any()
        assert np.isin(side.called, found.sides[0].called).all()


def net(*classes: str, size: int = 8) -> list[Call]:
    """A model with a module of each class, each with an op."""
    inner = [module(f"{name}_0", call_of(f"op{k % 3}", size=size)) for k, name in enumerate(classes)]
    return [module(f"{classes[0]}Model_0", *inner)]


BERT = ("BertLayer", "BertAttention", "BertOutput", "BertPooler", "BertEmbeddings", "Linear")
VIT = ("ViTLayer", "ViTAttention", "ViTOutput", "ViTPooler", "ViTEmbeddings", "Linear")


def test_models_that_share_only_linear_layers() -> None:
    found = aligned(net(*BERT), net(*VIT, size=16))
    assert found.are_unrelated
    assert [(of >= 0).any() for of in found.leaves] == [False, False]
    assert [[len(leaves) for leaves in point.leaves] for point in found.points] == [[6, 0], [0, 6]]


def test_renamed_modules_that_do_the_same_work_are_related() -> None:
    assert not aligned(net(*BERT), net(*VIT)).are_unrelated


def test_another_batch_size_is_related() -> None:
    assert not aligned(net(*BERT), net(*BERT, size=64)).are_unrelated


def test_compiled_code_has_no_modules_to_tell_it_by() -> None:
    compiled = [module("OptimizedModule_0", *(op(f"triton_{k}", launch(f"triton_{k}")) for k in range(4)))]
    assert not aligned(net(*BERT), compiled).are_unrelated
    assert not aligned(net(*BERT), [call_of("op1", size=16)]).are_unrelated


def test_few_classes_tell_nothing() -> None:
    assert not aligned(model(2), model(2, rename="all")).are_unrelated
