"""Kinds of collectives by the names of kernels, ops and annotations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus import kineto_traces, loaded, parametrize
from tracelens_graph.categories.kernels import kernel_category
from tracelens_graph.graph.collective_kinds import (
    KIND_NAMES,
    UNKNOWN,
    communication,
    counts_in_tracelens,
    kind_of,
    kind_of_kernel,
)
from tracelens_graph.schema import Kind

KERNELS = [
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "NCCL", "allreduce"),
    ("ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "NCCL", "reduce"),
    ("ncclDevKernel_ReduceScatter_Sum_bf16_NVLS_SIMPLE(x)", "NCCL", "reduce_scatter"),
    ("ncclSymkDevKernel_AllGather_STMC(ncclSymDevArgs)", "NCCL", "all_gather"),
    ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "NCCL", "send_recv"),
    ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", "NCCL", UNKNOWN),
    ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", "NCCL", UNKNOWN),
    ("rcclGenericKernel<1, false>(rcclKernelArgs)", "RCCL", UNKNOWN),
    ("void mscclpp::allreduce7<__half>(mscclpp::LLPacket*)", "MSCCL++", "allreduce"),
    ("mscclKernel_Sum_half_LL128", "MSCCL", UNKNOWN),
    ("oneccl_allreduce_small_kernel(void*)", "oneCCL", "allreduce"),
    ("void ccl::allgatherv_kernel<float>(void*)", "oneCCL", "all_gather"),
    ("hcom_allReduce__747_0_1", "HCCL", "allreduce"),
    ("hcom_reduceScatter__747_0_1", "HCCL", "reduce_scatter"),
    ("hcom_alltoallv__747_0_1", "HCCL", "all_to_allv"),
    ("hcom_batchSendRecv__747_2_1", "HCCL", "send_recv"),
    ("hcom_receive__747_2_1", "HCCL", "recv"),
    ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)", "custom all-reduce", "allreduce"),
    ("void aiter::cross_device_reduce_2stage<__hip_bfloat16, 8>(void*)", "custom all-reduce", "allreduce"),
    ("void quickreduce::allreduce_prototype_twoshot<Codec>(__half const*)", "quick reduce", "allreduce"),
    ("void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport", "TensorRT-LLM", "allreduce"),
    ("void flashinfer::trtllm_mnnvl_allreduce::twoshotAllreduceKernel<8>(P)", "TensorRT-LLM", "allreduce"),
    ("void tensorrt_llm::kernels::twoShotAllReduceKernel<__nv_bfloat16, 8>(P)", "TensorRT-LLM", "allreduce"),
    ("void tensorrt_llm::kernels::mnnvl_throughput::moeA2ACombineKernel<x>(P)", "TensorRT-LLM", "all_to_allv"),
    ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(x)", "symmetric memory", "allreduce"),
    ("void (anonymous namespace)::multimem_one_shot_all_reduce_kernel<float, 16>(x)", "symmetric memory", "allreduce"),
    ("void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<float, 16>(x)", "symmetric memory", "allreduce"),
    ("void (anonymous namespace)::multimem_all_gather_kernel<16, 8>(x)", "symmetric memory", "all_gather"),
    ("void (anonymous namespace)::barrier_kernel(unsigned int**, int)", "symmetric memory", "barrier"),
    ("void deep_ep::intranode::combine<__nv_bfloat16, 8, 768, 4096>(x)", "DeepEP", "all_to_allv"),
    ("_ZN7deep_ep12internode_ll8dispatchILb0ELi7168ELi9EEEvPvS2_S2_", "DeepEP", "all_to_allv"),
    ("void deep_ep::intranode::notify_dispatch<8>(int const*)", "DeepEP", UNKNOWN),
    ("void deep_ep::intranode::barrier<8>(int**, int)", "DeepEP", "barrier"),
    ("void dpsk::ep::internode::dispatch<false, 8, true, 8>(int4*, float*)", "DeepEP", "all_to_allv"),
    ("void dpsk::ep::internode::combine<false, 8, __nv_bfloat16>(int4*)", "DeepEP", "all_to_allv"),
    ("void dpsk::ep::internode::notify_dispatch<false, 4>(int const*)", "DeepEP", UNKNOWN),
    ("void dpsk::ep::internode::cached_notify<false>(int, int const*)", "DeepEP", UNKNOWN),
    ("void dpsk::ep::internode::dispatch_ll<false, 3>(void*)", "DeepEP", "all_to_allv"),
    ("_ZN4dpsk2ep9intranode7combineI13__nv_bfloat16Li8EEEvPT_", "DeepEP", "all_to_allv"),
    ("void primus_turbo::deep_ep::intranode::combine<8>(x)", "DeepEP", "all_to_allv"),
    ("void uccl::internode_ll::dispatch<true, 3>(void*)", "expert parallel", "all_to_allv"),
    ("void mine::ep::cached_notify_combine<8>(void*)", "expert parallel", UNKNOWN),
    ("EpDispatchIntraNodeKernel_fp8_fnuz", "expert parallel", "all_to_allv"),
    ("void low_latency_combine_kernel<8>(x)", "expert parallel", "all_to_allv"),
    ("void flux::all2all_inter_kernel<8>(x)", "", "all_to_all"),
    ("shmem_putmem_nbi_block(void*)", "one-sided", UNKNOWN),
    ("mcclDevKernel_AllReduce_Sum_f16(x)", "", "allreduce"),
    ("void mori::moe::EpCombineIntraNodeKernel<hip_bfloat16>(x)", "MORI", "all_to_allv"),
    ("barrier_on_stream_kernel_threadgroup(int, int)", "NVSHMEM", "barrier"),
    ("sync_all_on_stream_kernel_warp(int, int)", "NVSHMEM", UNKNOWN),
    ("void nvshmemi_transfer_rma_nbi<(threadgroup_t)1>(void*, void*)", "NVSHMEM", UNKNOWN),
    ("void c10d::nvshmem_extension::allToAllV(void*, void*, long*)", "NVSHMEM", "all_to_allv"),
    ("userbuffers_fp16_sum_inplace_gpu_rr_rs_oop<8, 1>(int, int)", "userbuffers", "_reduce_scatter_base"),
    ("userbuffers_fp16_sum_inplace_gpu_mc<8>(int, int)", "userbuffers", "allreduce"),
    ("collective-permute-start.3", "XLA", "send_recv"),
    ("recv-done.3", "XLA", "recv"),
    ("all-gather.2", "", "all_gather"),
    ("triton_all_reduce_kernel", "", "allreduce"),
    ("void aiter::reduce_scatter_cross_device_store<x>(x)", "", "reduce_scatter"),
    ("_ZN4dpsk2ep8dispatchEv", "expert parallel", "all_to_allv"),
    ("_ZN4dpsk2ep6layout7combineILi8EEEvPv", "expert parallel", "all_to_allv"),
    ("gin_dispatch", "expert parallel", "all_to_allv"),
    ("pplx_combine_kernel", "expert parallel", "all_to_allv"),
    ("nixl_put_kernel", "NIXL", UNKNOWN),
    ("ucc_tl_cuda_allgather", "UCC", "all_gather"),
    ("triton_dist_push_kernel", "one-sided", UNKNOWN),
    ("triton_dist_ag_pull_1d", "one-sided", UNKNOWN),
    ("void custom_ar_kernel<8>(x)", "custom all-reduce", "allreduce"),
    ("send_recv_kernel", "", "send_recv"),
    ("nvls_all_gather(x)", "symmetric memory", "all_gather"),
    ("reduce_then_all_gather_block(x)", "", "all_gather"),
    ("_ZN4c10d16symmetric_memory14barrier_kernelEPPjmii", "symmetric memory", "barrier"),
    ("void ulysses::a2a_tma_kernel<__nv_bfloat16>(void*)", "", "all_to_all"),
]  # fmt: skip
COMPUTE = [
    "void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)", "dpsk::ep::cuda::get_dispatch_layout(long*)",
    "void cdpsk::ep::CUB_200600_890::detail::scan::DeviceScanKernel<DispatchScan>(x)", "flash_fwd_mla_combine_kernel",
    "void moe_dispatch_permute<8>(x)", "reduce_shmem_kernel", "void at::native::index_put_kernel(x)",
    "triton_poi_fused_all_reduce_wait_tensor_3", "triton__0d1d2d_all_reduce", "gemm", "",
    "void softmax_warp_forward<WarpAllReduce>(x)", "void blockAllReduceSum<float>(x)", "fused_all_gather_matmul(x)",
    "void fused_layernorm_cta_allreduce_kernel<8>(x)", "grid_all_reduce_kernel", "softmax_grid_all_reduce_kernel",
    "dsmem_all_reduce", "cluster_fast_all_reduce", "waveAllReduce", "thread_block_all_to_all", "multimem_cast",
    "barrier_kernel", "alltoallv_unpack", "allreduce_free_rms_norm_kernel", "norm_without_all_reduce",
    "void cdpsk::layout2ep19get_dispatch_layout(x)",
    "__amd_rocclr_copyBuffer", "received_tokens_kernel", "void at::native::reduce_kernel<512, 1>(x)",
    "void at::native::vectorized_gather_kernel<16, long>(char*)",
]  # fmt: skip


@pytest.mark.parametrize(("name", "library", "kind"), KERNELS)
def test_kernels_by_name(name: str, library: str, kind: str) -> None:
    found = communication(name)
    assert found is not None
    assert (found.library, found.kind) == (library, kind)
    assert kind_of_kernel(name) == kind
    assert kernel_category(name) == "Communication"


@pytest.mark.parametrize("name", COMPUTE)
def test_compute_kernels_are_none(name: str) -> None:
    assert communication(name) is None
    assert kind_of_kernel(name) == UNKNOWN
    assert kernel_category(name) != "Communication"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("allreduce_coalesced", "allreduce_coalesced"), ("all_gather_into_tensor_coalesced", "_allgather_base"),
        ("reduce_scatter_tensor_coalesced", "_reduce_scatter_base"), ("_broadcast_oop", "broadcast"),
        ("_reduce_oop", "reduce"), ("recvAnySource", "recv"), ("alltoall_base_", "all_to_all"), ("wait", UNKNOWN),
        ("gather", "gather"), ("scatter", "scatter"), ("barrier", "barrier"), ("", UNKNOWN),
    ],
)  # fmt: skip
def test_kinds_by_op(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@given(st.text())
def test_any_text_is_looked_at(name: str) -> None:
    found = communication(name)
    assert found is None or found.kind in {*KIND_NAMES.values(), UNKNOWN}
    assert communication(f"nccl{name}") is not None


@parametrize("path", kineto_traces())
def test_real_kernels_of_a_category_are_communication(path: object) -> None:
    core = loaded(path)
    c = core.columns
    names = {core.names[code] for code in set(c.name[c.kind == Kind.Kernel].tolist())}
    assert {name for name in names if communication(name)} == {
        name for name in names if kernel_category(name) == "Communication"
    }


def test_what_tracelens_counts() -> None:
    counted = [name for name, *_ in KERNELS if counts_in_tracelens(name)]
    assert counted == [name for name in map(str, (one[0] for one in KERNELS)) if any(
        word in name.lower() for word in ("nccl", "rccl", "cross_device_reduce")
    )]  # fmt: skip
