"""Layers and roles of hand-made passes: whole, with lost kernels, out of order, and what is no model."""

from __future__ import annotations

from random import Random

import pytest
from replayed_passes import MODELS, kernels

from tracelens_graph.analyses.identification.grammar import order_of
from tracelens_graph.analyses.identification.layers import places

EVERY = pytest.mark.parametrize("model", MODELS)


@EVERY
def test_roles_follow_from_the_order_of_families(model: str) -> None:
    names, labels = kernels(MODELS[model])
    assert [place.label for place in places(names)] == labels


@EVERY
def test_a_lost_kernel_moves_nobody(model: str) -> None:
    names, labels = kernels(MODELS[model])
    for lost in range(len(names)):
        found = [place.label for place in places(names[:lost] + names[lost + 1 :])]
        wrong = sum(a != b for a, b in zip(found, labels[:lost] + labels[lost + 1 :], strict=True))
        assert wrong <= 1, (lost, labels[lost])


@EVERY
def test_with_one_in_a_hundred_lost_all_but_one_in_a_hundred_are_right(model: str) -> None:
    names, labels = kernels(MODELS[model], layers=36)
    wrong = total = 0
    for seed in range(10):
        random = Random(seed)
        kept = [at for at in range(len(names)) if random.random() > 0.01]
        found = [place.label for place in places([names[at] for at in kept])]
        wrong += sum(a != labels[at] for a, at in zip(found, kept, strict=True))
        total += len(kept)
    assert wrong <= 0.01 * total


@EVERY
def test_kernels_that_a_profiler_names_out_of_order_keep_their_layers(model: str) -> None:
    names, labels = kernels(MODELS[model])
    step = len(MODELS[model])
    # The last two kernels of a layer are recorded behind the first three of the next one, eight layers long.
    order = list(range(len(names)))
    for layer in range(4, 12):
        end = 1 + (layer + 1) * step
        order[end - 2 : end + 3] = [*order[end : end + 3], *order[end - 2 : end]]
    found = places([names[at] for at in order])
    assert [place.label for place in found] == [labels[at] for at in order]
    assert all(place.confidence < 1 for place in found if place.out_of_order)
    assert 0 < sum(place.out_of_order for place in found) <= 8 * 3


def test_dense_layers_before_layers_of_experts() -> None:
    dense, sparse = MODELS["llama"], MODELS["deepseek-nvidia"]
    attention = [step for step in sparse if step[1].startswith("attention")]
    names, labels = kernels([*attention, *[step for step in dense if step[1].startswith("mlp")]], layers=3)
    more, more_labels = kernels(sparse, layers=20)
    names = names[:-2] + more[1:]
    labels = labels[:-2] + [
        f"layer {int(label.split()[1]) + 3} / {label.split(' / ', 1)[1]}" if label.startswith("layer") else label
        for label in more_labels[1:]
    ]
    assert [place.label for place in places(names)] == labels


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["ampere_sgemm_128x64_tn"] * 50,
        ["void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor>()"] * 30,
        kernels(MODELS["llama"], layers=2)[0],
        ["void cudnn::bn_fw_tr_1C11_kernel_NCHW", "sm80_xmma_fprop_implicit_gemm", "vectorized_elementwise_kernel relu"]
        * 20,
    ],
)
def test_what_has_no_layers_of_attention_is_not_identified(names: list[str]) -> None:
    assert places(names) == []


@EVERY
def test_roles_stand_in_the_order_in_which_layers_run_them(model: str) -> None:
    _, labels = kernels(MODELS[model])
    roles = [label.split(" / ")[1:] for label in labels if label.startswith("layer 1 /")]
    for block in {block for block, _ in roles}:
        order = [order_of(role) for of, role in roles if of == block]
        assert order == sorted(order), [role for of, role in roles if of == block]
