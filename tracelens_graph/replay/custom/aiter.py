"""aiter: schemas as `compile_ops` and `torch_compile_guard` register its Python functions."""

from __future__ import annotations

from functools import partial

from tracelens_graph.replay.custom.entry import Shipped

_entry = partial(Shipped, imports=("aiter",))
_NORM = "(Tensor(a!) out, Tensor input, Tensor weight, float epsilon"
_ADD_NORM = "(Tensor(a!) out, Tensor input, Tensor residual_in, Tensor(b!) residual_out, Tensor weight, float epsilon"
_RESULT = "(Tensor input, Tensor weight, float epsilon, int use_model_sensitive_rmsnorm=0) -> Tensor"

ENTRIES = (
    _entry(
        f"aiter::rmsnorm{_NORM}) -> ()", reference="rms_norm",
        other=(f"aiter::rmsnorm{_NORM}, bool gemma_norm=False) -> ()",),
    ),
    _entry(
        f"aiter::add_rmsnorm{_ADD_NORM}) -> ()", reference="add_rms_norm",
        other=(f"aiter::add_rmsnorm{_ADD_NORM}, bool gemma_norm=False) -> ()",),
    ),
    _entry(f"aiter::rms_norm_cu{_NORM}) -> ()", reference="rms_norm"),
    _entry(
        "aiter::fused_add_rms_norm_cu(Tensor(a!) input, Tensor(b!) residual_in, Tensor weight, float epsilon) -> ()",
        reference="fused_add_rms_norm", is_changed=True,
    ),
    *(
        _entry(
            f"aiter::{name}{_ADD_NORM}, int use_model_sensitive_rmsnorm=0) -> ()", reference="add_rms_norm",
            other=(f"aiter::{name}{_ADD_NORM}, bool gemma_norm=False, int use_model_sensitive_rmsnorm=0) -> ()",),
        )
        for name in ("rmsnorm2d_fwd_with_add", "rmsnorm2d_fwd_with_add_ck")
    ),
    *(
        _entry(f"aiter::{name}{_RESULT}", reference="rms_norm_result")
        for name in ("rms_norm", "rmsnorm2d_fwd", "rmsnorm2d_fwd_ck")
    ),
    _entry("aiter::silu_and_mul(Tensor(a!) out, Tensor input) -> ()", reference="silu_and_mul"),
    _entry("aiter::gelu_and_mul(Tensor(a!) out, Tensor input) -> ()", reference="gelu_and_mul"),
    _entry("aiter::moe_sum(Tensor input, Tensor(a!) output) -> ()", reference="moe_sum"),
)  # fmt: skip
