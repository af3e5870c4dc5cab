"""What names of kernels say, in words of one kind for all libraries; and how those of products and convolutions say it.

They are Tensile's, cuBLAS's, cuDNN's, CUTLASS's, MIOpen's, TensorRT-LLM's, and those of Triton kernels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tracelens_graph.utils.patterns import LazyPattern


@dataclass(frozen=True)
class ParsedName:
    """What a kernel's name says. Absent values are None.

    Attributes:
        family: whose naming it is.
        operation: what is computed: `gemm`, `fprop`, `attention forward`, `pointwise`, ...
        dtype: type of the elements of the first operand.
        dtype_b: of the second, where it is another.
        out_dtype: of the result.
        compute_dtype: of the accumulator.
        tile: elements of the result that a thread block makes, M and N, and where given the depth K of a step.
        stages: buffers of the pipeline over K.
        transposes: for A and B, `T` where it is transposed and `N` where not, in BLAS's column-major sense.
        layout: order of the dimensions of a tensor, such as `nhwc`.
        instruction: M, N and K of the matrix instruction.
        cluster: thread blocks of a cluster, along M and N.
        split_k: whether several thread blocks share a sum over K; a number where the name says how many.
        arch: architecture that the kernel was compiled for, such as `sm90` or `gfx942`.
        epilogue: what is fused behind the product, such as `relu` or `bias`.
        head_dim: size of an attention head.
        causal: whether attention is masked causally.
        fused: names of the operations that a compiler fused, joined by `_`.
        functor: the function that a generic kernel applies.
    """

    family: str
    operation: str | None = None
    dtype: str | None = None
    dtype_b: str | None = None
    out_dtype: str | None = None
    compute_dtype: str | None = None
    tile: tuple[int, ...] | None = None
    stages: int | None = None
    transposes: str | None = None
    layout: str | None = None
    instruction: tuple[int, ...] | None = None
    cluster: tuple[int, ...] | None = None
    split_k: bool | int | None = None
    arch: str | None = None
    epilogue: str | None = None
    head_dim: int | None = None
    causal: bool | None = None
    fused: str | None = None
    functor: str | None = None


DTYPES = {
    "bf16": "bf16", "tf32": "tf32", "f16": "fp16", "f32": "fp32", "f64": "fp64", "e4m3": "fp8_e4m3",
    "e5m2": "fp8_e5m2", "i8": "int8", "s8": "int8", "i32": "int32", "s32": "int32", "fp32": "fp32", "fp16": "fp16",
    "fp8e4": "fp8_e4m3", "fp8e5": "fp8_e5m2", "mxfp4": "mxfp4_e2m1", "e2m1": "fp4_e2m1", "fp8": "fp8",
    "bfloat16": "bf16", "float16": "fp16", "mxe4m3": "mxfp8_e4m3", "mxe2m1": "mxfp4_e2m1",
    "half_t": "fp16", "bfloat16_t": "bf16", "float_e4m3_t": "fp8_e4m3", "float_e5m2_t": "fp8_e5m2",
}  # fmt: skip
"""How names spell types -> how they are called here."""


def sizes(text: str | None) -> tuple[int, ...] | None:
    """`128x256x64` as numbers."""
    return tuple(int(part) for part in text.split("x")) if text else None


def number(text: str | None) -> int | None:
    """Digits as a number."""
    return int(text) if text else None


def second(first: str | None, second: str | None) -> str | None:
    """The second operand's type where it is another than the first's."""
    return second if second != first else None


# --- Tensile (rocBLAS, hipBLASLt) --------------------------------------------------------------------------------

_TENSILE = LazyPattern(
    r"Cijk_A(?P<a>ilk|lik)C?_B(?P<b>ljk|jlk)C?_(?P<types>\w{1,60}?)_MT(?P<tile>\d{1,4}x\d{1,4}x\d{1,4})_"
)
_TENSILE_TYPE = re.compile(r"F8N|B8N|F8|B8|F6|F4|I8|4xi8|[HBSDCZIX]")
_TENSILE_TYPES = {
    "H": "fp16", "B": "bf16", "S": "fp32", "D": "fp64", "C": "complex64", "Z": "complex128", "I": "int32", "X": "tf32",
    "I8": "int8", "4xi8": "int8", "F8": "fp8_e4m3", "B8": "fp8_e5m2", "F8N": "fp8_e4m3", "B8N": "fp8_e5m2",
    "F6": "fp6", "F4": "fp4_e2m1",
}  # fmt: skip


def _tensile_types(text: str) -> list[str]:
    codes: list[str] = _TENSILE_TYPE.findall(text)
    return codes if "".join(codes) == text else []


def _read_tensile(found: re.Match[str]) -> ParsedName:
    """rocBLAS and hipBLASLt."""
    first, *rest = found["types"].split("_")
    codes = _tensile_types(first)
    # `BBS` is input, output, compute; `F8B8BS` has two inputs; `B_BS` says the same as `BBS`; the B of `SB` is "beta".
    if len(codes) == 1 and rest and len(more := _tensile_types(rest[0])) == 2:
        codes += more
    types = [_TENSILE_TYPES.get(code) for code in codes or [""]]
    output, compute = (types[-2], types[-1]) if len(types) > 2 else (types[0], types[0])
    # Four numbers are M, N, K and blocks of the instruction; newer names leave K out.
    instruction = re.search(r"_MI(\d{1,3}x\d{1,3}(?:x\d{1,3}(?=x))?)x\d{1,3}_", found.string)
    arch = re.search(r"_ISA([0-9a-f]{3,4})_", found.string)
    split = re.search(r"_GSU(\d{1,4})_", found.string)
    return ParsedName(
        "Tensile",
        "gemm",
        dtype=types[0],
        dtype_b=second(types[0], types[1]) if len(types) == 4 else None,
        out_dtype=output,
        compute_dtype=compute,
        tile=sizes(found["tile"]),
        transposes=("N" if found["a"] == "ilk" else "T") + ("N" if found["b"] == "ljk" else "T"),
        instruction=sizes(instruction[1] if instruction else None),
        split_k=int(split[1]) if split and int(split[1]) > 1 else None,
        arch=f"gfx{arch[1]}" if arch else None,
    )


# --- cuBLAS ------------------------------------------------------------------------------------------------------

_NVJET = LazyPattern(
    r"nvjet_(?:(?P<arch>sm\d{2,3})_)?(?P<types>[a-z]{3,5})_(?:mma_)?(?P<tile>\d{1,4}x\d{1,4})_(?P<k>\d{1,4})x"
    r"(?P<stages>\d{1,3})_(?P<cluster>\d{1,2}x\d{1,2})f?_(?P<rest>\w{1,80}_)?(?P<op>[TN]{2})[TN]{1,2}(?![a-zA-Z])"
)
_NVJET_TYPES = {"t": "bf16", "h": "fp16", "s": "fp32", "d": "fp64", "q": "fp8_e4m3", "o": "fp4_e2m1"}


def _read_nvjet(found: re.Match[str]) -> ParsedName:
    """cuBLAS, from Hopper on."""
    # Three letters: operands, accumulator, result. Five: A, B, C, accumulator, result.
    types = [_NVJET_TYPES.get(letter) for letter in found["types"]]
    rest = found["rest"] or ""
    return ParsedName(
        "nvjet",
        "gemm",
        dtype=types[0],
        dtype_b=second(types[0], types[1]) if len(types) == 5 else None,
        out_dtype=types[-1],
        compute_dtype=types[-2],
        tile=(*(sizes(found["tile"]) or ()), int(found["k"])),
        stages=int(found["stages"]),
        transposes=found["op"],
        cluster=sizes(found["cluster"]),
        split_k=True if "splitK" in rest else None,
        arch=found["arch"],
        epilogue="bias" if "bias" in rest else None,
    )


_OLD_CUBLAS = LazyPattern(
    r"(?P<arch>maxwell|pascal|volta|turing|ampere|hopper)_(?:(?P<dtype>fp16|bf16|fp32|int8|tf32)_)?"
    r"(?P<letter>[a-z]{0,3}?)(?P<instruction>\d{3,6})?(?P<kind>gemm|cudnn)_(?:(?P<out>fp16|bf16|fp32|int8)_)?"
    r"(?:winograd_)?(?P<tile>\d{1,3}x\d{1,3})_(?P<rest>\w{0,100})"
)
_BLAS_LETTERS = {"s": "fp32", "d": "fp64", "h": "fp16", "gc": "complex64", "c": "complex64", "z": "complex128",
                 "i": "int8", "cg": "complex64"}  # fmt: skip
_INSTRUCTIONS = {
    "884": (8, 8, 4), "1688": (16, 8, 8), "16816": (16, 8, 16), "161616": (16, 16, 16), "8816": (8, 8, 16),
    "16832": (16, 8, 32), "16864": (16, 8, 64),
}  # fmt: skip


def _read_old_cublas(found: re.Match[str]) -> ParsedName:
    """cuBLAS and cuDNN, Maxwell to Ampere."""
    scalar = _BLAS_LETTERS.get(found["letter"])
    steps = re.search(r"stages_(\d{1,3})x(\d{1,2})", found["rest"])
    transposes = re.search(r"(?:^|_)([tn]{2})(?:_v\d)?(?:_|$)", found["rest"])
    tile = sizes(found["tile"]) or ()
    # With a matrix instruction the letter is the accumulator's type, without one it is that of everything.
    tensor = found["instruction"] is not None
    dtype = found["dtype"] or (scalar if not tensor or scalar != "fp32" else None)
    return ParsedName(
        "cuBLAS" if found["kind"] == "gemm" else "cuDNN",
        "gemm" if found["kind"] == "gemm" else "convolution",
        dtype=dtype,
        out_dtype=found["out"] or (dtype if dtype == scalar else None),
        compute_dtype="int32" if scalar == "int8" else scalar,
        tile=(*tile, int(steps[1])) if steps else tile,
        stages=number(steps[2] if steps else None),
        transposes=transposes[1].upper() if transposes and found["kind"] == "gemm" else None,
        layout=_layout(found["rest"]),
        instruction=_INSTRUCTIONS.get(found["instruction"] or ""),
        split_k=True if re.search("split_?k", found["rest"], re.IGNORECASE) else None,
        arch=found["arch"],
        epilogue="relu" if "relu" in found["rest"] else None,
    )


_XMMA = LazyPattern(
    r"(?P<arch>sm\d{2,3})_xmma_(?P<op>gemm|fprop|dgrad|wgrad|conv\w{0,10})_(?P<rest>\w{1,200}?)_"
    r"tilesize(?P<tile>\d{1,4}x\d{1,4}x\d{1,4})(?P<end>\w{0,200})"
)
_WORDS = re.compile(r"bf16|tf32|f16|f32|f64|e4m3|e5m2|i8|s8|i32|s32")


def _read_xmma(found: re.Match[str]) -> ParsedName:
    """cuBLAS and cuDNN, Ampere and Hopper."""
    # `e4m3bf16_e4m3f32_f32`: A and the result; B and the accumulator; what the epilogue computes in.
    groups = [[DTYPES[word] for word in _WORDS.findall(g)] for g in found["rest"].split("_") if _WORDS.match(g)]
    (first, output), (other, compute) = groups[:2] if [len(g) for g in groups[:2]] == [2, 2] else [(None, None)] * 2
    gemm = found["op"] == "gemm"
    transposes = re.search(r"_([tn]{2})(?:_|$)", found["rest"])
    stages = re.search(r"_stage(\d{1,2})(?:_|$)", found["end"])
    instruction = re.search(r"_tensor(\d{1,3}x\d{1,3}x\d{1,3})", found["end"])
    cluster = re.search(r"_cga(\d{1,2}x\d{1,2})", found["end"])
    return ParsedName(
        "cuBLAS" if gemm else "cuDNN",
        found["op"],
        dtype=first,
        dtype_b=second(first, other),
        out_dtype=output,
        compute_dtype=compute,
        tile=sizes(found["tile"]),
        stages=number(stages[1] if stages else None),
        transposes=transposes[1].upper() if gemm and transposes else None,
        layout=_layout(found["rest"]),
        instruction=sizes(instruction[1] if instruction else None),
        cluster=sizes(cluster[1] if cluster else None),
        split_k=True if "split_k" in found["end"] else None,
        arch=found["arch"],
    )


def _layout(text: str) -> str | None:
    found = re.search(r"(?:^|_)(nhwc|nchw|ndhwc|ncdhw)(?:_|$)", text)
    return found[1] if found else None


# --- CUTLASS -----------------------------------------------------------------------------------------------------

_CUTLASS = LazyPattern(
    r"cutlass(?:_(?P<arch>\d{2,3}))?_(?:wmma_)?(?P<unit>tensorop|simt)_(?:(?P<dtype>bf16|fp16|f16|tf32|e4m3|e5m2|s8|f64)_)?"
    r"(?P<letter>[a-z]{1,2}?)(?P<instruction>\d{3,6})?(?P<op>gemm|fprop|dgrad|wgrad)_(?P<rest>\w{0,60}?_)??"
    r"(?P<tile>\d{1,3}x\d{1,3})(?:_(?P<k>\d{1,3})x(?P<stages>\d{1,2}))?_(?P<layout>[tn]{2}|n[dhwc]{3,4})(?:_|$|[^a-z])"
)
_CUTLASS3 = LazyPattern(
    r"cutlass3x_(?P<arch>sm\d{2,3})_(?:tensorop|simt|bstensorop|sptensorop)_\w{0,20}?(?P<op>gemm)_"
    r"(?P<types>(?:[a-z]{1,4}\d{0,2}[a-z0-9]{0,6}_){3,5})(?P<tile>\d{1,4}x\d{1,4}x\d{1,4})_"
    r"(?P<cluster>\d{1,2}x\d{1,2})x\d{1,2}_(?P<stages>\d{1,2})_(?P<layout>[tn]{2})[tn]"
)


def _read_cutlass3(found: re.Match[str]) -> ParsedName:
    """CUTLASS 3, as instantiated by cuBLAS, cuDNN and inductor."""
    types = [DTYPES.get(word) for word in found["types"].strip("_").split("_")]
    return ParsedName(
        "CUTLASS",
        "gemm",
        dtype=types[0],
        dtype_b=second(types[0], types[1]),
        out_dtype=types[-1],
        compute_dtype=types[2],
        tile=sizes(found["tile"]),
        stages=number(found["stages"]) or None,
        transposes=found["layout"].upper(),
        cluster=sizes(found["cluster"]),
        arch=found["arch"],
    )


def _read_cutlass(found: re.Match[str]) -> ParsedName:
    """CUTLASS 2, likewise."""
    scalar = _BLAS_LETTERS.get(found["letter"])
    rest = (found["rest"] or "").strip("_").split("_")
    out = next((DTYPES[word] for word in rest if word in ("bf16", "f16", "fp16", "f32")), None)
    words = DTYPES.get(found["dtype"] or "") or ("tf32" if "tf32" in rest else None)
    # `s1688` without a type is FP32 data rounded to TF32 for the instruction.
    tf32 = found["unit"] == "tensorop" and found["instruction"] == "1688" and scalar == "fp32" and found["arch"] != "75"
    dtype = words or ("tf32" if tf32 else None if found["unit"] == "tensorop" else scalar)
    gemm = found["op"] == "gemm"
    return ParsedName(
        "cuDNN" if "cudnn" in found.string[: found.start()] else "CUTLASS",  # by the namespace
        found["op"],
        dtype=dtype,
        out_dtype=out or ("fp32" if dtype == "tf32" else scalar if found["unit"] == "simt" else None),
        compute_dtype=scalar,
        tile=(*(sizes(found["tile"]) or ()), *([int(found["k"])] if found["k"] else [])),
        stages=int(found["stages"]) if found["stages"] else None,
        transposes=found["layout"].upper() if gemm else None,
        layout=None if gemm else found["layout"],
        instruction=_INSTRUCTIONS.get(found["instruction"] or ""),
        arch=f"sm{found['arch']}" if found["arch"] else None,
        epilogue="relu" if "relu" in rest else None,
    )


# --- MIOpen, TensorRT-LLM, Triton kernels ------------------------------------------------------------------------

_IGEMM = LazyPattern(
    r"igemm_(?P<op>fwd|bwd|wrw)_gtc\w{0,3}?_(?:(?P<layout>nhwc|nchw|nchwc)_)?(?:(?P<dtype>fp16|bf16|fp32|int8)_)?"
    r"\w{0,20}?bt(?P<tile>\d{1,3}x\d{1,3}x\d{1,3})_(?:wt(?P<instruction>\d{1,3}x\d{1,3}x\d{1,3}))?"
)
_IGEMM_OPS = {"fwd": "fprop", "bwd": "dgrad", "wrw": "wgrad"}


def _read_igemm(found: re.Match[str]) -> ParsedName:
    """Implicit GEMMs of MIOpen."""
    return ParsedName(
        "MIOpen",
        _IGEMM_OPS[found["op"]],
        dtype=found["dtype"],
        tile=sizes(found["tile"]),
        layout=found["layout"],
        instruction=sizes(found["instruction"]),
    )


_TYPE = r"(?:Mx)?(?:E4m3|E5m2|E2m1|Bfloat16|Fp16|Fp32)"
_BMM = LazyPattern(
    rf"(?:b|ge)mm_(?P<out>{_TYPE})_(?P<a>{_TYPE})(?P<b>{_TYPE})_(?P<compute>{_TYPE})_t(?P<tile>\d{{1,3}}x\d{{1,3}}x\d{{1,4}})"
    r"(?:u\d)?_s(?P<stages>\d{1,2})_\w{0,80}?m(?P<instruction>\d{1,3}x\d{1,3}x\d{1,3})_(?:cga(?P<cluster>\d{1,2}x\d{1,2}))?"
)


def _read_trtllm_gemm(found: re.Match[str]) -> ParsedName:
    """Generated GEMMs of TensorRT-LLM."""
    arch = re.search(r"_sm(\d{2,3})[a-z]?$", found.string)
    a, b = DTYPES.get(found["a"].lower()), DTYPES.get(found["b"].lower())
    return ParsedName(
        "TensorRT-LLM",
        "gemm",
        dtype=a,
        dtype_b=second(a, b),
        out_dtype=DTYPES.get(found["out"].lower()),
        compute_dtype=DTYPES.get(found["compute"].lower()),
        tile=sizes(found["tile"]),
        stages=int(found["stages"]),
        transposes=next((word for word in found.string.split("_") if word in ("TN", "NN", "NT", "TT")), None),
        instruction=sizes(found["instruction"]),
        cluster=sizes(found["cluster"]),
        arch=f"sm{arch[1]}" if arch else None,
        epilogue="swiglu" if "swiGlu" in found.string else None,
    )


_OGS = LazyPattern(
    r"matmul_ogs_[NT]{2,3}_(?P<y>\w{2,8}?)x(?P<x>\w{2,8}?)x(?P<w>\w{2,8}?)_"
    r"(?P<tile>\d{1,4}x\d{1,4}x\d{1,4})x(?P<split>\d{1,3})(?:_(?P<epilogue>[a-z]+))?"
)


def _read_matmul_ogs(found: re.Match[str]) -> ParsedName:
    """Grouped GEMMs of triton_kernels: result, activations, weights; block sizes and split of K."""
    x = DTYPES.get(found["x"])
    return ParsedName(
        "Triton",
        "gemm",
        dtype=x,
        dtype_b=second(x, DTYPES.get(found["w"])),
        out_dtype=DTYPES.get(found["y"]),
        tile=sizes(found["tile"]),
        split_k=int(found["split"]) if int(found["split"]) > 1 else None,
        epilogue=found["epilogue"],
    )


Reader = Callable[[re.Match[str]], ParsedName | None]
GEMM_NAMES: Sequence[tuple[str, LazyPattern, Reader]] = (
    ("Cijk", _TENSILE, _read_tensile),
    ("nvjet", _NVJET, _read_nvjet),
    ("_xmma_", _XMMA, _read_xmma),
    ("cutlass3x", _CUTLASS3, _read_cutlass3),
    ("cutlass", _CUTLASS, _read_cutlass),
    ("gemm_", _OLD_CUBLAS, _read_old_cublas),
    ("cudnn_", _OLD_CUBLAS, _read_old_cublas),
    ("igemm_", _IGEMM, _read_igemm),
    ("mm_", _BMM, _read_trtllm_gemm),
    ("matmul_ogs", _OGS, _read_matmul_ogs),
)
"""What must stand in a name for a pattern to be looked for, the pattern, and what reads it."""
