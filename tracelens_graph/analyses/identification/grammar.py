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


_IN_ORDER = (
    "input norm", "q/kv down product", "q down product", "kv down product", "q down norm", "kv down norm",
    "q up product",
    "k absorb product", "qkv product", "q product", "kv product", "k product", "v product", "q norm", "k norm", "rope",
    "KV-cache write", "attention", "v up product", "out product", "attention output norm", "post-attention norm",
    "MLP norm", "MoE norm", "router product", "top-k", "expert sort", "expert up product", "gate/up product",
    "activation",
    "expert products", "expert down product", "combine", "down product", "post-MLP norm", "shared gate/up product",
    "shared activation", "shared down product",
)  # fmt: skip
"""The roles of a layer in the order in which a model runs them."""


def order_of(role: str) -> float:
    """Where a role stands among those of a layer; a small kernel stands beside the one that it prepares or finishes.

    >>> order_of("rope") < order_of("attention") < order_of("all-reduce after out product")
    True
    """
    for word, side in ((" before ", -0.5), (" after ", 0.5)):
        _, found, beside = role.partition(word)
        if found:
            return order_of(beside) + side
    return _IN_ORDER.index(role) if role in _IN_ORDER else len(_IN_ORDER)


def roles(families: Sequence[Family], anchor: int) -> list[Slot]:
    """The roles of a layer's kernels, in order of time.

    Args:
        families: of its kernels, from the norm at its beginning on.
        anchor: position of its attention.
    """
    middle = _second_norm(families, anchor)
    inward, outward, rest = families[:anchor], families[anchor:middle], families[middle:]
    # Latent attention (MLA): products lead down and up before it, and up and out behind it.
    latent = inward.count(Family.product) > 1 and outward.count(Family.product) > 1
    block = "moe" if _MOE & set(rest) else "mlp"
    second = _experts(rest) if block == "moe" else _dense(rest)
    ways = [*_inward(inward, latent), *_outward(outward), *second]
    named = [role or _CERTAIN.get(family) for role, family in zip(ways, families, strict=True)]
    blocks = ["attention"] * middle + [block] * len(rest)
    return _numbered(zip(blocks, _with_small(families, named, middle), strict=True))


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


_NORMS_OF_HEADS = {False: ("q norm", "k norm"), True: ("q down norm", "kv down norm")}
_INWARD = {
    (False, 1): ("qkv product",),
    (False, 2): ("q product", "kv product"),
    (False, 3): ("q product", "k product", "v product"),
    (True, 2): ("q/kv down product", "k absorb product"),
    (True, 3): ("q/kv down product", "q up product", "k absorb product"),
    (True, 4): ("q down product", "kv down product", "q up product", "k absorb product"),
}
"""Whether attention is latent, and number of products before it -> what they make."""


def _inward(families: Sequence[Family], latent: bool) -> Iterable[str | None]:
    """Up to attention."""
    count = families.count(Family.product)
    names = _INWARD.get((latent, count)) or _INWARD[latent, 4 if latent else 3]
    norms = _NORMS_OF_HEADS[latent]
    products = head_norms = 0
    for family in families:
        products += family == Family.product
        if family in (Family.product, Family.product_part):
            yield names[min(max(products, 1), len(names)) - 1]
        elif family == Family.norm:
            yield norms[min(head_norms, 1)] if products else "input norm"
            head_norms += products > 0
        else:
            yield None


def _outward(families: Sequence[Family]) -> Iterable[str | None]:
    """From attention to the second norm."""
    names = ("v up product", "out product") if families.count(Family.product) > 1 else ("out product",)
    products = 0
    for family in families:
        products += family == Family.product
        if family in (Family.product, Family.product_part):
            yield names[min(max(products, 1), len(names)) - 1]
        else:
            yield "attention output norm" if family == Family.norm else None


def _dense(families: Sequence[Family]) -> Iterable[str | None]:
    """A dense block: what stands behind its activation, or else the last product, leads down."""
    products = [at for at, family in enumerate(families) if family == Family.product]
    turn = next((at for at, family in enumerate(families) if family == Family.activation), None)
    down = turn if turn is not None else products[-1] - 1 if len(products) > 1 else len(families)
    role, norms = "gate/up product", 0
    for at, family in enumerate(families):
        if family == Family.product:
            role = "down product" if at > down else "gate/up product"
        if family in (Family.product, Family.product_part):
            yield role
        elif family == Family.norm:
            yield "post-MLP norm" if products and at > products[0] else ("MLP norm" if norms else "post-attention norm")
            norms += 1
        else:
            yield None


def _experts(families: Sequence[Family]) -> Iterable[str | None]:
    """A mixture of experts: the plain product nearest before the choice of experts is the router.

    Other plain products are those of experts that all tokens share. Of the products of chosen experts the first half
    leads up, the second down; one alone does both.
    """
    choice = next((at for at, family in enumerate(families) if family in _MOE), len(families))
    plain = [at for at, family in enumerate(families) if family == Family.product]
    router = max((at for at in plain if at < choice), default=plain[0] if plain else -1)
    shared = [at for at in plain if at != router]
    chosen = [at for at, family in enumerate(families) if family == Family.experts]
    up = chosen[: (len(chosen) + 1) // 2]
    role, norms = "router product", 0
    for at, family in enumerate(families):
        if family == Family.product:
            leads_down = len(shared) > 1 and at == shared[-1]
            role = "router product" if at == router else f"shared {'down' if leads_down else 'gate/up'} product"
        if family in (Family.product, Family.product_part):
            yield role
        elif family == Family.experts:
            yield "expert products" if len(chosen) == 1 else f"expert {'up' if at in up else 'down'} product"
        elif family == Family.norm:
            yield "MoE norm" if norms else "post-attention norm"
            norms += 1
        elif family == Family.activation and not (chosen and chosen[0] < at < chosen[-1]):
            yield "shared activation"
        else:
            yield None


_AFTER = frozenset({Family.all_reduce, Family.communication, Family.reduction})
"""Small kernels that finish what stands before them; the others prepare what follows."""


def _with_small(families: Sequence[Family], named: Sequence[str | None], middle: int) -> Iterable[str]:
    """The roles, those of small kernels by what they stand before or after in their half of the layer."""
    for at, (family, role) in enumerate(zip(families, named, strict=True)):
        if role is not None:
            yield role
            continue
        begin, end = (0, middle) if at < middle else (middle, len(named))
        before = next((one for one in named[at:end] if one), "")
        after = next((one for one in named[begin:at][::-1] if one), "")
        prefers_after = family in _AFTER or not before
        yield f"{family} after {after}" if after and prefers_after else f"{family} before {before or 'all'}"


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
