"""Call trees made by chance, and edits of them whose effect is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from random import Random

from call_trees import Call, frame, launch, module, op

OPS = ("aten::mm", "aten::add", "aten::mul", "aten::copy_", "aten::native_layer_norm")


@dataclass(eq=False)
class Tree:
    """A call; a tree with a number is an op that launches one kernel, which is called by the number."""

    name: str
    calls: list[Tree] = field(default_factory=list)
    number: int = -1
    size: int = 1
    us: float = 1.0

    def call(self) -> Call:
        """The same as an entry of a trace."""
        if self.number >= 0:
            return op(self.name, launch(f"k{self.number}", self.us), **{"Input Dims": [[self.size, 8]]})
        inner = [tree.call() for tree in self.calls]
        kind = {"nn": module, "fr": frame}.get(self.name[:2], op)
        return kind(self.name[2:] if kind is not op else self.name, *inner)

    def copy(self, numbers: count[int]) -> Tree:
        """The same with kernels of other numbers."""
        number = next(numbers) if self.number >= 0 else -1
        return Tree(self.name, [tree.copy(numbers) for tree in self.calls], number, self.size, self.us)

    def clone(self) -> Tree:
        """The same."""
        return Tree(self.name, [tree.clone() for tree in self.calls], self.number, self.size, self.us)

    def leaves(self) -> list[Tree]:
        """What launches kernels, in order."""
        return [self] if self.number >= 0 else [leaf for tree in self.calls for leaf in tree.leaves()]

    def inner(self) -> list[Tree]:
        """All trees in it that have calls, itself first."""
        return [] if self.number >= 0 else [self, *(node for tree in self.calls for node in tree.inner())]


def made(random: Random, numbers: count[int], depth: int = 3, times: tuple[float, ...] = (1.0,)) -> Tree:
    """A tree of modules, frames and ops."""

    def grown(level: int) -> Tree:
        if level == 0 or random.random() < 0.2:
            return Tree(random.choice(OPS), [], next(numbers), random.choice((1, 2)), random.choice(times))
        name = random.choice(("nnBlock_0", "nnAttention_0", "frm.py(1): step", "aten::linear", "aten::layer_norm"))
        return Tree(name, [grown(level - 1) for _ in range(random.randint(1, 3))])

    return Tree("nnModel_0", [grown(depth) for _ in range(random.randint(1, 4))])


def layered(random: Random, numbers: count[int], layers: int) -> Tree:
    """A model of equal layers."""
    body = [Tree("nnNorm_0", [Tree("aten::native_layer_norm", [], next(numbers))])]
    for block in ("nnAttention_0", "nnMLP_0"):
        ops = [Tree(random.choice(OPS), [], next(numbers), random.choice((1, 2))) for _ in range(random.randint(2, 4))]
        body.append(Tree(block, ops))
    one = Tree("nnLayer_0", body)
    return Tree("nnModel_0", [one.copy(numbers) for _ in range(layers)])


def edited(tree: Tree, random: Random, numbers: count[int], edits: int) -> Tree:
    """A tree after some edits. Kernels that keep their numbers, which stand in the same order, are what was kept."""
    tree = tree.clone()
    for _ in range(edits):
        random.choice(EDITS)(tree, random, numbers)
    return tree


def _place(tree: Tree, random: Random) -> tuple[list[Tree], int]:
    """Some call, as a place in what its caller calls."""
    calls = random.choice([node.calls for node in tree.inner() if node.calls] or [tree.calls])
    return calls, random.randrange(len(calls)) if calls else 0


def delete(tree: Tree, random: Random, numbers: count[int]) -> None:
    """Take a call out."""
    calls, place = _place(tree, random)
    del calls[place : place + 1]


def insert(tree: Tree, random: Random, numbers: count[int]) -> None:
    """Put a call in."""
    calls, place = _place(tree, random)
    calls.insert(place, Tree(random.choice(OPS), [], next(numbers), random.choice((1, 2))))


def rename(tree: Tree, random: Random, numbers: count[int]) -> None:
    """Give a call another name."""
    calls, place = _place(tree, random)
    for one in calls[place : place + 1]:
        one.name = "nnOther_0" if one.name.startswith("nn") else "frother.py(2): f" if one.calls else "aten::other"


def wrap(tree: Tree, random: Random, numbers: count[int]) -> None:
    """Put some calls side by side below a new one."""
    calls, place = _place(tree, random)
    end = place + random.randint(1, 3)
    if calls[place:end]:
        calls[place:end] = [Tree(random.choice(("nnWrapper_0", "frwrapper.py(1): f")), calls[place:end])]


def unwrap(tree: Tree, random: Random, numbers: count[int]) -> None:
    """Put the calls of a call in its place: it was inlined."""
    calls, place = _place(tree, random)
    for one in calls[place : place + 1]:
        if one.calls:
            calls[place : place + 1] = one.calls


def fuse(tree: Tree, random: Random, numbers: count[int]) -> None:
    """Put one kernel in the place of two side by side."""
    calls, place = _place(tree, random)
    if len(calls[place : place + 2]) == 2 and all(one.number >= 0 for one in calls[place : place + 2]):
        del calls[place + 1]


def reorder(tree: Tree, random: Random, numbers: count[int]) -> None:
    """Exchange two calls side by side; one of them counts as new."""
    calls, place = _place(tree, random)
    calls[place : place + 2] = [one.copy(numbers) if k else one for k, one in enumerate(calls[place : place + 2])][::-1]


def repeat(tree: Tree, random: Random, numbers: count[int]) -> None:
    """Do a call twice."""
    calls, place = _place(tree, random)
    calls[place:place] = [one.copy(numbers) for one in calls[place : place + 1]]


EDITS = (delete, insert, rename, wrap, unwrap, fuse, reorder, repeat)


def kept(a: Tree, b: Tree) -> list[tuple[int, int]]:
    """Places of the leaves that the edits kept."""
    at = {leaf.number: place for place, leaf in enumerate(b.leaves())}
    return [(place, at[leaf.number]) for place, leaf in enumerate(a.leaves()) if leaf.number in at]
