"""Models written as trees of calls."""

from __future__ import annotations

from call_trees import Call, frame, launch, module, op

LAYER = ("native_layer_norm", "mm", "softmax", "mm", "add")


def call_of(name: str, *calls: Call, size: int = 8, us: float = 1.0) -> Call:
    """An op that launches a kernel of its name, or calls others."""
    return op(f"aten::{name}", *(calls or (launch(name, us),)), **{"Input Dims": [[size, size]]})


def layer(number: int, name: str = "nn.Module: Layer", forward: str = "model.py(7): forward") -> Call:
    """A layer of five ops."""
    return frame(f"{name}_{number}", frame(forward, *(call_of(op) for op in LAYER)))


def model(layers: int, rename: str = "") -> list[Call]:
    """A model of equal layers, with other names of its modules, of its frames, or of all of them."""
    name = "nn.Module: Stage" if rename in ("module", "all") else "nn.Module: Layer"
    forward = "other.py(3): run" if rename in ("frame", "all") else "model.py(7): forward"
    root = "Other_0" if rename in ("module", "all") else "Net_0"
    return [module(root, *(layer(k, name, forward) for k in range(layers)))]
