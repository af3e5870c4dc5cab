"""The grammar of a transformer layer: which role a kernel has, by its family and what stands around it.

A layer is written norm, what makes queries, keys and values, attention, what leads out of it, norm, and a dense or a
mixture-of-experts block. The roles of products, norms and small kernels follow from their order between these; those of
attention, rotation, cache, routing and activation from the family alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tracelens_graph.analyses.identification.families import Family


class Slot(NamedTuple):
    """A place inside a layer, or beside the layers.

    Attributes:
        block: attention, mlp, moe; where it is beside the layers: before, after.
        role: what the kernel does there.
        part: numbers the kernels of one role, from 0.
    """

    block: str
    role: str
    part: int = 0


_PRODUCTS = frozenset({Family.product})
_MOE = frozenset({Family.router, Family.sort, Family.experts, Family.combine})
_CERTAIN = {
    Family.rope: "rope",
    Family.cache: "KV-cache write",
    Family.attention: "attention",
    Family.attention_part: "attention",
    Family.activation: "activation",
    Family.router: "top-k",
    Family.sort: "expert sort",
    Family.combine: "combine",
}
"""Families whose role is known wherever they stand in a layer."""


_BY_ORDER = frozenset({Family.product, Family.product_part, Family.norm, Family.experts})


def certainty(family: Family, slot: Slot) -> float:
    """How much a role follows from a kernel's family alone, from 0 to 1.

    Attention, rotation, cache, activation and routing are named by their kernels. Products and norms have roles by
    their order in the layer. What small kernels do is known, what for is not.
    """
    if slot.block in ("before", "after"):
        return 0.95 if slot.role in ("final norm", "head product", "embedding", "sampling") else 0.6
    return 1.0 if family in _CERTAIN else 0.95 if family in _BY_ORDER else 0.8


def roles(families: Sequence[Family], anchors: int) -> list[Slot]:
    """The roles of a layer's kernels, in order of time.

    Args:
        families: of its kernels, from the norm at its beginning on.
        anchors: position of its attention.
    """
    middle = _second_norm(families, anchors)
    before, after, rest = families[:anchors], families[anchors:middle], families[middle:]
    block = "moe" if _MOE & set(rest) else "mlp"
    ways = [
        *_inward(before, _absorbed(before, after)),
        *_outward(after),
        *(_experts(rest) if block == "moe" else _dense(rest)),
    ]
    blocks = ["attention"] * middle + [block] * len(rest)
    return _numbered(zip(blocks, ways, strict=True))


def _second_norm(families: Sequence[Family], attention: int) -> int:
    """Where the second half of a layer begins: at the first norm behind a product behind attention."""
    products = 0
    for at in range(attention, len(families)):
        products += families[at] == Family.product
        if families[at] == Family.norm and products:
            return at
    # Blocks side by side have one norm for both: what follows the first product behind attention is the other block.
    first = next((i for i in range(attention, len(families)) if families[i] == Family.product), len(families))
    return min(first + 1, len(families))


def _absorbed(before: Sequence[Family], after: Sequence[Family]) -> bool:
    """Whether attention is latent (MLA): products lead down and up before it, and up and out behind it."""
    return before.count(Family.product) >= 2 and after.count(Family.product) >= 2


def _inward(families: Sequence[Family], latent: bool) -> Iterable[str]:
    count, seen, norms = families.count(Family.product), 0, 0
    if latent:
        names = {
            2: ("q/kv down product", "k absorb product"),
            3: ("q/kv down product", "q up product", "k absorb product"),
        }.get(count, ("q down product", "kv down product", "q up product", "k absorb product"))
    else:
        names = {1: ("qkv product",), 2: ("q product", "kv product")}.get(
            count, ("q product", "k product", "v product")
        )
    head_norms = ("q down norm", "kv down norm") if latent else ("q norm", "k norm")
    for family in families:
        if family == Family.product:
            yield names[min(seen, len(names) - 1)]
            seen += 1
        elif family == Family.product_part:
            yield names[min(max(seen - 1, 0), len(names) - 1)]
        elif family == Family.norm:
            yield head_norms[min(norms, 1)] if seen else "input norm"
            norms += seen > 0
        else:
            yield _small(family, f"before {names[min(seen, len(names) - 1)]}" if seen < count else "before attention")


def _outward(families: Sequence[Family]) -> Iterable[str]:
    count, seen = families.count(Family.product), 0
    names = {1: ("out product",), 0: ("out product",)}.get(count, ("v up product", "out product"))
    for family in families:
        if family == Family.product:
            yield names[min(seen, len(names) - 1)]
            seen += 1
        elif family == Family.product_part:
            yield names[min(max(seen - 1, 0), len(names) - 1)]
        elif family == Family.norm:
            yield "attention output norm"
        else:
            yield _small(family, f"before {names[min(seen, len(names) - 1)]}" if seen < count else "after attention")


def _dense(families: Sequence[Family]) -> Iterable[str]:
    acts = [i for i, family in enumerate(families) if family == Family.activation]
    total, seen = families.count(Family.product), 0
    role = "gate/up product"
    norms = 0
    for at, family in enumerate(families):
        if family == Family.product:
            seen += 1
            last = seen == total and total > 1
            role = "down product" if (at > acts[0] if acts else last) else "gate/up product"
            yield role
        elif family == Family.product_part:
            yield role
        elif family == Family.norm:
            yield ("post-attention norm" if not norms else "MLP norm") if not seen else "post-MLP norm"
            norms += 1
        else:
            yield _small(
                family,
                "after MLP" if seen == total else "before gate/up product" if not seen else "before down product",
            )


def _experts(families: Sequence[Family]) -> Iterable[str]:
    first_product = next((i for i, f in enumerate(families) if f == Family.product), -1)
    first_moe = next((i for i, f in enumerate(families) if f in _MOE and f != Family.router), len(families))
    first_choice = next((i for i, f in enumerate(families) if f == Family.router), first_moe)
    # The product nearest before the choice of experts is the router; other plain ones are of the shared expert.
    plain = [i for i, f in enumerate(families) if f == Family.product]
    router = max((i for i in plain if i < first_choice), default=first_product)
    grouped = [i for i, f in enumerate(families) if f == Family.experts]
    shared = [i for i in plain if i != router]
    role, norms, seen = "router product", 0, 0
    for at, family in enumerate(families):
        if family == Family.product:
            if at == router:
                role = "router product"
            else:
                role = "shared down product" if len(shared) > 1 and at == shared[-1] else "shared gate/up product"
            yield role
        elif family == Family.product_part:
            yield role
        elif family == Family.experts:
            seen += 1
            yield (
                "expert products"
                if len(grouped) == 1
                else "up product"
                if seen <= (len(grouped) + 1) // 2
                else "down product"
            )
        elif family == Family.norm:
            yield "post-attention norm" if not norms else "MoE norm"
            norms += 1
        elif family == Family.activation and (not grouped or not grouped[0] < at < grouped[-1]):
            yield "shared activation"
        else:
            yield _small(
                family,
                "before router product"
                if at < router
                else "before experts"
                if not seen
                else "after experts"
                if seen == len(grouped)
                else "between experts",
            )


def _small(family: Family, where: str) -> str:
    return _CERTAIN.get(family) or f"{family} {where}"


def beside(families: Sequence[Family], block: str) -> list[Slot]:
    """Roles of kernels before or after the layers."""
    names = []
    normed = False
    for family in families:
        if family == Family.norm and block == "after" and not normed:
            names.append("final norm")
            normed = True
        elif family in (Family.product, Family.product_part):
            names.append("head product" if block == "after" else "product")
        else:
            names.append(str(family))
    return _numbered((block, name) for name in names)


def _numbered(ways: Iterable[tuple[str, str]]) -> list[Slot]:
    counts: dict[tuple[str, str], int] = {}
    found = []
    for way in ways:
        counts[way] = counts.get(way, -1) + 1
        found.append(Slot(*way, counts[way]))
    return found
