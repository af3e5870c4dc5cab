"""Collectives that engines bring along as ops of their own, and hyper-connections."""

from __future__ import annotations

from functools import partial

from tracelens_graph.op_table.entry import Rows, model, ops

_collective = partial(ops, category="CustomCollective", sheet="CustomCollective_fwd", in_tracelens=True)
_hyper_connection = partial(ops, category="mHC", sheet="mHC_fwd", in_tracelens=True)

OPS: Rows = [
    # --- Collectives ---------------------------------------------------------------------------------------------
    *_collective(
        "_C_custom_ar::all_reduce",
        "_C_custom_ar::qr_all_reduce",
        "sgl_kernel::all_reduce_reg",
        "sgl_kernel::qr_all_reduce",
        model=model("collective_ops.collective", tensors=(1,)),
    ),
    *_collective(
        "aiter::reduce_scatter", "aiter::all_gather_reg", model=model("collective_ops.collective", tensors=(1, 2))
    ),
    *_collective("sglang::reg_all_gather_into_tensor", model=model("collective_ops.collective", tensors=(1, 0))),
    *_collective("aiter::fused_allreduce_rmsnorm", model=model("collective_ops.all_reduce_rms_norm", tensors=(2, 6))),
    *_collective("aiter::fused_allreduce_rmsnorm_", model=model("collective_ops.all_reduce_rms_norm", tensors=(0, 2))),
    *_collective(
        "vllm::rocm_aiter_fused_allreduce_rmsnorm",
        category=None,
        model=model("collective_ops.all_reduce_rms_norm", tensors=(0, 2)),
    ),
    *ops(
        "symm_mem::multimem_all_reduce_",
        "symm_mem::one_shot_all_reduce",
        "symm_mem::two_shot_all_reduce_",
        model=model("collective_ops.collective", tensors=(0,)),
        sheet="CustomCollective_fwd",
    ),
    *ops(
        *(
            f"aiter::allgather_lastdim<std::bfloat16_t, {ranks}>(aiter::RankData*, aiter::RankSignals, aiter::Signal*, "
            "std::bfloat16_t*, int, int, int) (Synthetic Op)"
            for ranks in (2, 4)
        ),
        category="CustomCollective",
    ),
    # --- Hyper-connections ---------------------------------------------------------------------------------------
    *_hyper_connection(
        "aiter::mhc_post",
        model=model("collective_ops.HyperConnection", streams=2, touched=(0, 1, 2, 3, 4), mixes=True),
    ),
    *_hyper_connection(
        "aiter::mhc_pre_gemm_sqrsum",
        model=model("collective_ops.HyperConnection", streams=2, touched=(0, 1, 2, 3), projection=3),
    ),
    *_hyper_connection(
        "aiter::mhc_pre_big_fuse_rmsnorm",
        model=model("collective_ops.HyperConnection", streams=7, touched=(0, 1, 2, 3, 7, 8), folds=True),
    ),
    *_hyper_connection(
        "aiter::mhc_fused_post_pre_gemm_sqrsum",
        model=model(
            "collective_ops.HyperConnection", streams=4, touched=(0, 1, 2, 2, 3, 4, 5, 6, 7), projection=7, mixes=True
        ),
    ),
]
