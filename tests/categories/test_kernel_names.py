"""Names of kernels taken apart, and many of them at once."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from growth import assert_growth, calls, cost
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.categories.kernel_names import parse_name, properties, title
from tracelens_graph.categories.kernels import kernel_categories
from tracelens_graph.tables.names import LONGEST, fitted, short_name

KNOWN: dict[str, dict[str, Any]] = {
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN_LDSB1_GSU4_GSUAMBSK_GLS0_ISA942_IU1": {
        "family": "Tensile", "operation": "gemm", "dtype": "bf16", "out_dtype": "bf16", "compute_dtype": "fp32",
        "tile_m": 256, "tile_n": 192, "tile_k": 64, "transposes": "TN", "instruction_m": 16, "instruction_n": 16,
        "split_k": 4, "arch": "gfx942",
    },
    "Cijk_Ailk_Bjlk_HHS_BH_MT128x256x32_MI32x32x8x1_SN_1LDSB0_ISA90a_": {
        "family": "Tensile", "operation": "gemm", "dtype": "fp16", "out_dtype": "fp16", "compute_dtype": "fp32",
        "tile_m": 128, "tile_n": 256, "tile_k": 32, "transposes": "NT", "instruction_m": 32, "instruction_n": 32,
        "instruction_k": 8, "arch": "gfx90a",
    },
    "Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT64x32x128_MI16x16x1_SN": {
        "family": "Tensile", "operation": "gemm", "dtype": "bf16", "out_dtype": "bf16", "compute_dtype": "fp32",
        "tile_m": 64, "tile_n": 32, "tile_k": 128, "transposes": "TN", "instruction_m": 16, "instruction_n": 16,
    },
    "Cijk_Ailk_Bljk_SB_MT64x16x32_MI16x16x4x1_SN": {
        "family": "Tensile", "operation": "gemm", "dtype": "fp32", "out_dtype": "fp32", "compute_dtype": "fp32",
        "tile_m": 64, "tile_n": 16, "tile_k": 32, "transposes": "NN", "instruction_m": 16, "instruction_n": 16,
        "instruction_k": 4,
    },
    "Custom_Cijk_Alik_Bljk_F8B8BS_BH_Bias_SHB_HA_S_SAB_SCD_SAV_UserArgs_MT256x256x128_MI16x16x1_SN": {
        "family": "Tensile", "operation": "gemm", "dtype": "fp8_e4m3", "dtype_b": "fp8_e5m2", "out_dtype": "bf16",
        "compute_dtype": "fp32", "tile_m": 256, "tile_n": 256, "tile_k": 128, "transposes": "TN", "instruction_m": 16,
        "instruction_n": 16,
    },
    "nvjet_tst_320x128_64x3_1x2_h_bz_coopB_TNT": {
        "family": "nvjet", "operation": "gemm", "dtype": "bf16", "out_dtype": "bf16", "compute_dtype": "fp32",
        "tile_m": 320, "tile_n": 128, "tile_k": 64, "stages": 3, "transposes": "TN", "cluster_m": 1, "cluster_n": 2,
    },
    "nvjet_sm100_qqtst_128x256_128x6_2x2_2cta_h_bz_Avec32UE8M0_Bvec32UE8M0_splitK_NTT": {
        "family": "nvjet", "operation": "gemm", "dtype": "fp8_e4m3", "out_dtype": "bf16", "compute_dtype": "fp32",
        "tile_m": 128, "tile_n": 256, "tile_k": 128, "stages": 6, "transposes": "NT", "cluster_m": 2, "cluster_n": 2,
        "split_k": True, "arch": "sm100",
    },
    "nvjet_hss_64x8_64x16_1x1_v_bz_bias_TNN": {
        "family": "nvjet", "operation": "gemm", "dtype": "fp16", "out_dtype": "fp32", "compute_dtype": "fp32",
        "tile_m": 64, "tile_n": 8, "tile_k": 64, "stages": 16, "transposes": "TN", "cluster_m": 1, "cluster_n": 1,
        "epilogue": "bias",
    },
    "volta_sgemm_128x64_nn": {
        "family": "cuBLAS", "operation": "gemm", "dtype": "fp32", "out_dtype": "fp32", "compute_dtype": "fp32",
        "tile_m": 128, "tile_n": 64, "transposes": "NN", "arch": "volta",
    },
    "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x3_tn": {
        "family": "cuBLAS", "operation": "gemm", "dtype": "fp16", "out_dtype": "fp16", "compute_dtype": "fp32",
        "tile_m": 128, "tile_n": 64, "tile_k": 64, "stages": 3, "transposes": "TN", "instruction_m": 16,
        "instruction_n": 8, "instruction_k": 16, "arch": "ampere",
    },
    "ampere_h16816gemm_256x128_ldg8_stages_32x3_nt": {
        "family": "cuBLAS", "operation": "gemm", "dtype": "fp16", "out_dtype": "fp16", "compute_dtype": "fp16",
        "tile_m": 256, "tile_n": 128, "tile_k": 32, "stages": 3, "transposes": "NT", "instruction_m": 16,
        "instruction_n": 8, "instruction_k": 16, "arch": "ampere",
    },
    "cudnn_infer_volta_scudnn_128x32_sliced1x4_ldg4_relu_exp_small_nhwc_tn_v1": {
        "family": "cuDNN", "operation": "convolution", "dtype": "fp32", "out_dtype": "fp32", "compute_dtype": "fp32",
        "tile_m": 128, "tile_n": 32, "layout": "nhwc", "arch": "volta", "epilogue": "relu",
    },
    "sm90_xmma_gemm_e4m3bf16_e5m2f32_f32_tn_n_tilesize128x64x128_warpgroupsize1x1x1_execute_segment_k_off_kernel": {
        "family": "cuBLAS", "operation": "gemm", "dtype": "fp8_e4m3", "dtype_b": "fp8_e5m2", "out_dtype": "bf16",
        "compute_dtype": "fp32", "tile_m": 128, "tile_n": 64, "tile_k": 128, "transposes": "TN", "arch": "sm90",
    },
    "sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x64x64_stage4_warpsize2x2x1_g1_"
    "tensor16x8x8_execute_split_k_kernel_cudnn": {
        "family": "cuDNN", "operation": "wgrad", "dtype": "tf32", "out_dtype": "fp32", "compute_dtype": "fp32",
        "tile_m": 64, "tile_n": 64, "tile_k": 64, "stages": 4, "layout": "nhwc", "instruction_m": 16,
        "instruction_n": 8, "instruction_k": 8, "split_k": True, "arch": "sm80",
    },
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_64x3_tn_align8>(Params)": {
        "family": "CUTLASS", "operation": "gemm", "dtype": "bf16", "out_dtype": "bf16", "compute_dtype": "fp32",
        "tile_m": 256, "tile_n": 128, "tile_k": 64, "stages": 3, "transposes": "TN", "instruction_m": 16,
        "instruction_n": 8, "instruction_k": 16, "arch": "sm80", "epilogue": "relu",
    },
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nt_align1>(Params)": {
        "family": "CUTLASS", "operation": "gemm", "dtype": "tf32", "out_dtype": "fp32", "compute_dtype": "fp32",
        "tile_m": 256, "tile_n": 64, "tile_k": 16, "stages": 4, "transposes": "NT", "instruction_m": 16,
        "instruction_n": 8, "instruction_k": 8, "arch": "sm80",
    },
    "cutlass_75_tensorop_fp16_s1688gemm_fp16_256x128_nn_align1": {
        "family": "CUTLASS", "operation": "gemm", "dtype": "fp16", "out_dtype": "fp16", "compute_dtype": "fp32",
        "tile_m": 256, "tile_n": 128, "transposes": "NN", "instruction_m": 16, "instruction_n": 8, "instruction_k": 8,
        "arch": "sm75",
    },
    "void cutlass_cudnn_infer::Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32_64x128_32x3_nhwc_align4>(Params)": {
        "family": "cuDNN", "operation": "dgrad", "dtype": "tf32", "out_dtype": "fp32", "compute_dtype": "fp32",
        "tile_m": 64, "tile_n": 128, "tile_k": 32, "stages": 3, "layout": "nhwc", "instruction_m": 16,
        "instruction_n": 8, "instruction_k": 8,
    },
    "cutlass3x_sm90_tensorop_s64x128x32gemm_e4m3_e5m2_f32_bf16_bf16_64x128x128_2x1x1_0_tnt_align16_warpspecialized": {
        "family": "CUTLASS", "operation": "gemm", "dtype": "fp8_e4m3", "dtype_b": "fp8_e5m2", "out_dtype": "bf16",
        "compute_dtype": "fp32", "tile_m": 64, "tile_n": 128, "tile_k": 128, "transposes": "TN", "cluster_m": 2,
        "cluster_n": 1, "arch": "sm90",
    },
    "igemm_wrw_gtcx3_nhwc_bf16_bx0_ex1_bt64x32x32_wt16x16x16_ws1x1_wr2x1_ta1x4x1x2": {
        "family": "MIOpen", "operation": "wgrad", "dtype": "bf16", "tile_m": 64, "tile_n": 32, "tile_k": 32,
        "layout": "nhwc", "instruction_m": 16, "instruction_n": 16, "instruction_k": 16,
    },
    "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_16dp256b_rM_TN_transOut_sm100f": {
        "family": "TensorRT-LLM", "operation": "gemm", "dtype": "mxfp4_e2m1", "dtype_b": "mxfp8_e4m3",
        "out_dtype": "bf16", "compute_dtype": "fp32", "tile_m": 128, "tile_n": 16, "tile_k": 256, "stages": 3,
        "transposes": "TN", "instruction_m": 128, "instruction_n": 16, "instruction_k": 32, "cluster_m": 1,
        "cluster_n": 1, "arch": "sm100",
    },
    "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x4_swiglu": {
        "family": "Triton", "operation": "gemm", "dtype": "bf16", "dtype_b": "mxfp4_e2m1", "out_dtype": "bf16",
        "tile_m": 16, "tile_n": 128, "tile_k": 256, "split_k": 4, "epilogue": "swiglu",
    },
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 64, 4, false, false, "
    "cutlass::bfloat16_t, pytorch_flash::Flash_kernel_traits<64, 128, 64, 4, cutlass::bfloat16_t> >, false, true, "
    "false, false, false, true, false>(pytorch_flash::Flash_fwd_params)": {
        "family": "FlashAttention", "operation": "attention forward", "dtype": "bf16", "tile_m": 128, "tile_n": 64,
        "head_dim": 64, "causal": True,
    },
    "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, 96, 8, 2, 4, 2, true, false, "
    "cutlass::half_t, Flash_kernel_traits<128, 64, 96, 8, cutlass::half_t> >, false, false, true>(Flash_bwd_params)": {
        "family": "FlashAttention", "operation": "attention backward", "dtype": "fp16", "tile_m": 64, "tile_n": 96,
        "head_dim": 128, "causal": False,
    },
    "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, false, false, cutlass::half_t, "
    "Flash_kernel_traits<128, 64, 128, 4, cutlass::half_t> >, true, false, false>(Flash_fwd_params)": {
        "family": "FlashAttention", "operation": "attention forward", "dtype": "fp16", "tile_m": 64, "tile_n": 128,
        "head_dim": 128, "causal": True, "split_k": True,
    },
    "_ZN5aiter42fmha_bwd_hd128_bf16_causal_a32_rtne_psskddvE": {
        "family": "aiter", "operation": "attention backward", "dtype": "bf16", "head_dim": 128, "causal": True,
    },
    "fmha_cutlassB_f16_aligned_128x64_k64_sm80(PyTorchMemEffAttention::AttentionBackwardKernel<float>::Params)": {
        "family": "xformers", "operation": "attention backward", "dtype": "fp16", "tile_m": 128, "tile_n": 64,
        "arch": "sm80",
    },
    "attn_fwd.kd": {"family": "Triton", "operation": "attention forward"},
    "bwd_kernel_dk_dv": {"family": "Triton", "operation": "attention backward"},
    "chunk_attn_fwd": {},
    "void ck_tile::kentry<2, ck_tile::FmhaFwdKernel<ck_tile::BlockFmhaPipelineQRKSVSAsync<P> > >(K)": {
        "family": "CK", "operation": "attention forward",
    },
    "_ZN7ck_tile6kentryILi2ENS_22FmhaBwdDQDKDVKernelINS_37BlockFmhaBwdDQDKDVPipelineE": {
        "family": "CK", "operation": "attention backward",
    },
    "void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm>(Argument)": {"family": "CK", "operation": "gemm"},
    "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3INS_28G": {
        "family": "CK", "operation": "fprop",
    },
    "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassE": {"family": "CK"},
    "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv256PersistentContext": {
        "family": "TensorRT-LLM", "operation": "attention forward", "dtype": "fp8_e4m3", "out_dtype": "bf16",
        "tile_m": 128, "tile_n": 256, "arch": "sm100", "head_dim": 64, "causal": True,
    },
    "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_12": {
        "family": "inductor", "operation": "reduction", "fused": "_to_copy_add_mean_mul_pow_rsqrt",
    },
    "triton_poi_fused_0": {"family": "inductor", "operation": "pointwise"},
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<at::native::BinaryFunctor<float, float, "
    "float, at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&)>(int)": {
        "family": "PyTorch", "functor": "MulFunctor",
    },
    "void at::native::vectorized_elementwise_kernel<4, at::native::neg_kernel_cuda(at::TensorIteratorBase&)::"
    "{lambda()#2}::operator()() const::{lambda()#9}>(int)": {"family": "PyTorch", "functor": "neg_kernel_cuda"},
    "nvjet_xyz_64x8_64x16_1x1_v_bz_TNN": {
        "family": "nvjet", "operation": "gemm", "tile_m": 64, "tile_n": 8, "tile_k": 64, "stages": 16,
        "transposes": "TN", "cluster_m": 1, "cluster_n": 1,
    },
    "void cutlass::Kernel2<T>(T::Params)": {},
    "Cijk_SB_PostGSU8_VW4": {},
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": {},
    "": {},
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_properties(name: str) -> None:
    assert properties(name) == KNOWN[name]
    assert (parse_name(name) is None) == (not KNOWN[name])


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >(int, char*)",
         "vectorized_elementwise_kernel"),
        ("void at::native::(anonymous namespace)::f<4, g>(int)::{lambda(int)#1}::operator()(int) const", "f"),
        ("at::native::neg_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}::operator()() const::{lambda()#9}",
         "neg_kernel_cuda"),
        ("void <unnamed>::softmax_warp_forward<(int)9, float>(T2 *, const T1 *, int)", "softmax_warp_forward"),
        ("std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type "
         "vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, long)", "fused_add_rms_norm_kernel"),
        ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float>(P)", "gemvx::kernel"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(P)",
         "cutlass_80_simt_sgemm_128x32_8x5_nn_align1"),
        ("void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<C<2> > > >(P)", "FlashAttnFwdSm90"),
        ("void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__reduce::ReduceAgent<int*>, int*>(int*)",
         "ReduceAgent"),
        ("void ck_tile::kentry<1, ck_tile::FmhaFwdKernel<P> >(K)", "FmhaFwdKernel"),
        ("void ck_tile::kentry<ck_tile::gfx950_t, 2, ck_tile::FmhaFwdKernel<P> >(K) [clone .kd]", "FmhaFwdKernel"),
        ("_ZN7ck_tile6kentryINS_8gfx950_tELi2ENS_13FmhaFwdKernelINS_1PE", "FmhaFwdKernel"),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_AllGather_RING_LL"),
        ("void a::b<(x->y), (c > d)>::e(int) [clone .kd]", "e"),
        ("triton_poi_fused_add_0.kd", "triton_poi_fused_add_0"),
        ("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEEEEviT0_",
         "vectorized_elementwise_kernel"),
        ("_ZN2ck16tensor_operation6device12_GLOBAL__N_110conv_fwd_xINS_3FooE", "conv_fwd_x"),
        ("_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassE", "Rmsnorm2dFwd"),
        ("_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalINS1_1EE", "GemmUniversal"),
        ("_Z11my_kernel_2Pfi.kd", "my_kernel_2"),
        ("Cijk_Alik_Bljk_BBS_BH_MT64x32x256_MI16x16x1_SN_LDSB1", "Cijk_Alik_Bljk_BBS_BH_MT64x32x256"),
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD (Device -> Device)"),
        ("volta_sgemm_64x64_nt", "volta_sgemm_64x64_nt"),
        ("void f<unclosed<(", "f"),
        ("f)>}]>(int)", "f"),
        ("_Z", "_Z"),
        ("::", "::"),
        ("", ""),
        ("x" * 500, "x" * (LONGEST - 1) + "…"),
    ],
)  # fmt: skip
def test_short_name(name: str, short: str) -> None:
    assert short_name(name) == short


BRACKETS = st.text(st.sampled_from("<>(){}[]:, ->_Zaf1{lambda(anonymous namespace)Kernel"), max_size=200)


@given(BRACKETS | st.text())
def test_any_text_is_read(name: str) -> None:
    assert isinstance(properties(name), dict)
    assert len(short_name(name)) <= max(LONGEST, len(name))


@given(st.text(st.sampled_from("abcXYZ_"), min_size=1).filter(lambda s: not s.startswith("_Z")), BRACKETS)
def test_short_name_is_the_function_whatever_its_arguments(function: str, inside: str) -> None:
    if function not in ("_", "kernel"):
        balanced = inside.translate(str.maketrans("", "", "<>(){}[]"))
        assert short_name(f"void ns::{function}<{balanced}>({balanced})") == short_name(function)


@pytest.mark.parametrize(
    ("name", "width", "shown"),
    [
        ("aten::convolution_backward", 26, "aten::convolution_backward"),
        ("aten::convolution_backward", 24, "...convolution_backward"),
        ("aten::convolution_backward", 16, "aten..._backward"),
        ("torch::autograd::CppNode<MyFunction>", 16, "MyFunction"),
    ],
)
def test_what_is_cut_is_seen(name: str, width: int, shown: str) -> None:
    assert fitted(name, width) == shown


@pytest.mark.parametrize(
    "frame",
    ["a/modeling_qwen2.py(68): apply_rotary_pos_emb", "modeling_qwen2.py:68 apply_rotary_pos_emb", "x.py(68): f" * 6],
)
def test_a_frame_that_is_cut_keeps_its_line(frame: str) -> None:
    for width in range(1, 60):
        shown = fitted(frame, width)
        assert len(shown) <= width
        assert width < 10 or "68" in shown, (width, shown)


HOSTILE = pytest.mark.parametrize(
    "part",
    ["<", ">", "(", "a<", "<a,", "a::", " ", " :: ", "(anonymous namespace)", "{lambda", "Kernel<", "_Z9kentryI", "1",
     "La1", "(}", " [clone ", "Cijk_", "nvjet_a_", "flash_fwd_", "triton_fused_", "at::native::elementwise_<", "x1"],
)  # fmt: skip


def read(prefix: str, part: str, length: int) -> None:
    name = (prefix + part * (length // len(part) + 1))[:length]
    assert len(short_name(name)) <= LONGEST
    properties(name)


@HOSTILE
@pytest.mark.parametrize(
    "prefix", ["", "_Z", "void f<", "Cijk_Alik_Bljk_", "cutlass_", "triton_poi_fused_", "gemm_mm_"]
)
def test_work_grows_with_the_name(prefix: str, part: str) -> None:
    assert_growth(lambda length: partial(read, prefix, part, length), 800)


@HOSTILE
def test_a_name_of_a_megabyte_is_no_more_work_than_what_is_read_of_it(part: str) -> None:
    read("", part, 1 << 16)  # what is done once
    collecting = 100  # calls that the garbage collector makes whenever it runs
    assert calls(lambda: read("", part, 1_000_000)) <= calls(lambda: read("", part, 1 << 16)) + collecting


@pytest.mark.proof
def test_names_that_the_same_rules_fit_share_the_list_of_them() -> None:
    count = 5_000
    kernels = [(f"{number}", "") for number in range(count)]
    kernel_categories(kernels[:1])
    assert cost(lambda: kernel_categories(kernels)).peak < 150 * count


@pytest.mark.parametrize("width", [16, 24, 40, 60])
def test_names_that_are_cut_keep_their_tile(width: int) -> None:
    families = ("Tensile", "CUTLASS", "cuBLAS", "cuDNN", "MIOpen", "nvjet")
    tiled = [name for name, known in KNOWN.items() if known.get("family") in families and "tile_m" in known]
    tiled = [name for name in tiled if f"{KNOWN[name]['tile_m']}x{KNOWN[name]['tile_n']}" in short_name(name)]
    assert len(tiled) > 8
    for name in tiled:
        shown = fitted(name, width)
        assert len(shown) <= width
        assert f"{KNOWN[name]['tile_m']}x{KNOWN[name]['tile_n']}" in shown, (name, shown)


def test_titles_are_library_operation_and_tile() -> None:
    assert title("Cijk_Ailk_Bjlk_HHS_BH_MT128x256x32_MI32x32x8x1_SN_1LDSB0_ISA90a_") == "Tensile gemm 128x256x32"
    assert title("elementwise_kernel") == title("aten::mm") == ""
