from __future__ import annotations

from alignments import aligned
from call_trees import Call, launch, module, op
from trees_of_calls import call_of, model


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


def test_renamed_modules_that_do_the_same_work_are_no_strangers() -> None:
    assert not aligned(net(*BERT), net(*VIT)).are_unrelated


def test_another_batch_size_is_no_stranger() -> None:
    assert not aligned(net(*BERT), net(*BERT, size=64)).are_unrelated


def test_compiled_code_has_no_modules_to_tell_it_by() -> None:
    compiled = [module("OptimizedModule_0", *(op(f"triton_{k}", launch(f"triton_{k}")) for k in range(4)))]
    assert not aligned(net(*BERT), compiled).are_unrelated
    assert not aligned(net(*BERT), [call_of("op1", size=16)]).are_unrelated


def test_few_classes_tell_nothing() -> None:
    assert not aligned(model(2), model(2, rename="all")).are_unrelated
