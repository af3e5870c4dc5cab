"""Categories of kernels: names labelled by hand, order of the rules, rules of one's own, every name of the corpus."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from re import _constants, _parser
from typing import Any

import pytest
from growth import calls
from hypothesis import given
from hypothesis import strategies as st

from corpus import CHECKOUT, kineto_traces, loaded, needs_corpus
from tracelens_graph.categories.kernel_rules import CATEGORIES, NAME_RULES, OP_RULES, OTHER
from tracelens_graph.categories.kernels import (
    KERNEL_RULES,
    LONGEST,
    KernelRule,
    KernelRules,
    category_of_op,
    kernel_categories,
    kernel_category,
)
from tracelens_graph.errors import AnalysisError
from tracelens_graph.schema import Kind

MOST_OTHER = 0.03
"""Share of kernel time that may be in no category, over all traces."""


def labelled() -> list[tuple[str, str]]:
    """Names and categories of labelled_kernels.txt."""
    found, category = [], ""
    for line in Path(__file__).with_name("labelled_kernels.txt").read_text().splitlines()[1:]:
        if line.startswith("# "):
            category = line.removeprefix("# ")
        elif line:
            found.append((line, category))
    return found


@cache
def kernels_of_corpus() -> dict[str, int]:
    """Names of all kernels of the corpus and the time they take."""
    found: Counter[str] = Counter()
    for path in kineto_traces():
        core = loaded(path)
        c = core.columns
        rows = core.gpu_rows[c.kind[core.gpu_rows] == Kind.Kernel]
        for code, ns in zip(c.name[rows].tolist(), c.dur_ns[rows].tolist(), strict=True):
            found[core.names[code]] += ns
    return found


@pytest.mark.parametrize(("name", "category"), labelled())
def test_labelled_by_hand(name: str, category: str) -> None:
    assert kernel_category(name) == category


def test_labels_cover_every_category() -> None:
    assert {category for _, category in labelled()} == set(CATEGORIES)


@needs_corpus
def test_labels_go_beyond_the_corpus() -> None:
    assert len({name for name, _ in labelled()} - kernels_of_corpus().keys()) >= 150


@pytest.mark.parametrize(
    ("marker", "category"),
    [
        *((f"x_{marker}_y", "GEMM") for marker in ("Cijk", "gemm", "nvjet", "cublasLt")),
        *(
            (marker, "Flash Attention Backward")
            for marker in ("FmhaBwd", "flash_bprop", "ck_fused_attn::dk_dv_reduce_thd", "fmha_bwd")
        ),
        *((marker, "Flash Attention Forward") for marker in ("FmhaFwd", "flash_fprop", "fmha_fwd", "kernel_mha")),
        *((marker, "Convolution") for marker in ("conv_x", "conv.1", "conv-x")),
        *((f"x{marker}y", "Communication") for marker in ("rccl", "nccl")),
    ],
)
def test_markers(marker: str, category: str) -> None:
    assert kernel_category(marker) == category


@pytest.mark.parametrize(
    ("name", "op", "category"),
    [
        ("__amd_rocclr_fillBufferAligned", "aten::convolution_backward", "Convolution"),
        ("__amd_rocclr_fillBufferAligned", "CONV_bwd", "Convolution"),
        ("FillBufferAligned", "aten::miopen_convolution", "Convolution"),
        ("__amd_rocclr_fillBufferAligned", "aten::zero_", "Memory Ops"),
        ("__amd_rocclr_fillBufferAligned", "aten::convert_element_type", "Memory Ops"),
        ("void at::native::vectorized_gather_kernel<16, long>(char*)", "aten::embedding", "Embedding"),
        ("void at::native::vectorized_gather_kernel<16, long>(char*)", "aten::index_select", "Memory Ops"),
        ("volta_sgemm_64x64_nt", "aten::convolution_backward", "Convolution"),
        ("ncclDevKernel_Generic", "aten::mm", "Communication"),
        ("unheard_of", "aten::mm", "GEMM"),
        ("unheard_of", "fbgemm::unheard_of", OTHER),
        ("unheard_of", "aten::convolution", "Convolution"),
        ("unheard_of", "aten::_scaled_dot_product_flash_attention", "Flash Attention Forward"),
        ("unheard_of", "aten::_scaled_dot_product_flash_attention_backward", "Flash Attention Backward"),
        ("unheard_of", "SDPA_bwd", "Flash Attention Backward"),
        ("unheard_of", "aten::native_layer_norm_backward", "Normalization"),
        ("unheard_of", "aten::normal_", "Sampling"),
        ("unheard_of", "aten::embedding_dense_backward", "Embedding"),
        ("unheard_of", "Optimizer.step#AdamW.step", "Optimizer"),
        ("unheard_of", "vllm::moe_forward", "MoE"),
        ("unheard_of", "record_param_comms", "Communication"),
        ("unheard_of", "cudaGraphLaunch", OTHER),
        ("unheard_of", "", OTHER),
    ],
)
def test_op_decides_where_the_name_does_not(name: str, op: str, category: str) -> None:
    assert kernel_category(name, op) == category
    assert kernel_categories([(name, ""), (name, op)]) == [kernel_category(name), category]


@pytest.mark.parametrize(
    ("category", "ops"),
    [
        ("Normalization", "_C::rms_norm aiter::rmsnorm sgl_kernel::rmsnorm _C::fused_add_rms_norm aiter::add_rmsnorm"),
        ("RoPE", "_C::rotary_embedding sgl_kernel::rotary_embedding aiter::rope_cached_positions_2c_fwd_impl"),
        ("MoE", "_moe_C::topk_softmax aiter::topk_softmax sgl_kernel::topk_softmax sglang::outplace_fused_experts"),
        ("Flash Attention Forward", "vllm::unified_attention sglang_profiler::attention_paged_attention_ragged_100"),
    ],
)
def test_ops_of_all_engines_have_one_category(category: str, ops: str) -> None:
    assert {category_of_op(op) for op in ops.split()} == {category}


def test_rules_name_known_categories_in_lower_case() -> None:
    assert {rule.category for rule in KERNEL_RULES.rules} == CATEGORIES.keys() - {OTHER}
    for rule in KERNEL_RULES.rules:
        assert rule.pattern == rule.pattern.lower()
        assert rule.op == rule.op.lower()


def test_rules_of_ops_alone_come_last() -> None:
    alone = [not rule.pattern for rule in KERNEL_RULES.rules]
    assert alone == sorted(alone)
    assert sum(alone) == len(OP_RULES)
    assert len(alone) - sum(alone) == sum(len(patterns) for _, patterns in NAME_RULES)


@needs_corpus
def test_no_pattern_is_made_for_one_kernel() -> None:
    names = {name.lower() for name in kernels_of_corpus()}
    for rule in KERNEL_RULES.rules:
        if rule.pattern:
            assert rule.pattern.replace("\\", "") not in names
            for name in filter(re.compile(rule.pattern).fullmatch, names):
                assert re.search(rule.pattern, f"{name}_of_another_kind"), (rule.pattern, name)


@needs_corpus
def test_hardly_any_kernel_time_of_the_corpus_is_in_no_category() -> None:
    kernels = kernels_of_corpus()
    assert len(kernels) > 500
    other = {name: ns for name, ns in kernels.items() if kernel_category(name) == OTHER}
    assert sum(other.values()) <= MOST_OTHER * sum(kernels.values()), sorted(other, key=other.__getitem__)[-10:]


@needs_corpus
def test_page_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(CHECKOUT / "docs"))
    import make_kernel_categories

    assert make_kernel_categories.page() == make_kernel_categories.PAGE.read_text(), (
        "run docs/make_kernel_categories.py"
    )


@given(st.text(), st.text())
def test_any_text_has_a_category(name: str, op: str) -> None:
    assert kernel_category(name, op) in CATEGORIES
    assert kernel_category(name, op) == kernel_category(name.lower(), op.upper().lower())


@pytest.mark.parametrize(
    "part", ["a", "_", "(", "attn_", "flash", "fmha", "cudnn_", "multi_tensor_apply_kernel<", "conv", "te::", "1x1_"]
)
def test_of_a_name_of_a_megabyte_the_beginning_counts(part: str) -> None:
    name = (part * (1_000_000 // len(part)))[:1_000_000]
    assert kernel_category(name, name) == kernel_category(name[:LONGEST], name[:LONGEST])
    assert kernel_category(f"gemm{name}") == kernel_category(f"gemm{name}"[:LONGEST])


def test_what_stands_behind_the_beginning_is_not_read() -> None:
    assert kernel_category("." * (LONGEST - 4) + "gemm") == "GEMM"
    assert kernel_category("." * LONGEST + "gemm") == OTHER
    assert kernel_category("x", "." * LONGEST + "aten::convolution") == OTHER


def repeats(pattern: Any, around: int = 0) -> Iterator[int]:
    """Of each repetition without an end in a parsed pattern, how many repetitions are around it."""
    for operator, argument in pattern:
        inside = around
        if operator in (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT):
            _, most, argument = argument
            if most is _constants.MAXREPEAT:
                yield around
            inside += most is _constants.MAXREPEAT or most > 1
        for part in argument if isinstance(argument, (list, tuple)) else [argument]:
            for branch in part if isinstance(part, list) else [part]:
                if isinstance(branch, _parser.SubPattern):
                    yield from repeats(branch, inside)


@pytest.mark.parametrize(
    ("pattern", "found"), [("a+b*", [0, 0]), ("(?:a+b)*", [0, 1]), ("(a|(b{2,9}c+)?)", [0]), ("(?=x(?:y*){3})", [1])]
)
def test_repetitions_are_found(pattern: str, found: list[int]) -> None:
    assert list(repeats(_parser.parse(pattern))) == found


@pytest.mark.parametrize("rule", KERNEL_RULES.rules, ids=str)
def test_no_rule_can_be_made_to_try_forever(rule: KernelRule) -> None:
    """Without a repetition in a repetition, matching is a polynomial of the length, and of low degree."""
    for pattern in (rule.pattern, rule.op):
        found = list(repeats(_parser.parse(pattern)))
        assert not any(found)
        assert len(found) <= 2


class TestOwnRules:
    def test_own_rules_come_first_and_change_nothing_for_others(self, tmp_path: Path) -> None:
        file = tmp_path / "rules.toml"
        file.write_text(
            '[categories]\nGlue = "what we wrote"\n'
            '[[rule]]\ncategory = "Glue"\npattern = "^My\\\\w+Kernel$"\n'
            '[[rule]]\ncategory = "MoE"\npattern = "gemm"\nop = "Expert"\n'
            '[[rule]]\ncategory = "Softmax"\nop = "my_op"\n'
        )
        own = KERNEL_RULES.with_file(file)
        assert kernel_category("myGemmKernel", rules=own) == "Glue"
        assert kernel_category("sgemm", "run_experts", own) == "MoE"
        assert kernel_category("sgemm", "aten::mm", own) == "GEMM"
        assert kernel_category("sgemm", "my_op", own) == "Softmax"
        assert own.categories["Glue"] == "what we wrote"
        assert kernel_category("myGemmKernel") == "GEMM"
        assert "Glue" not in KERNEL_RULES.categories

    def test_files_can_be_stacked(self, tmp_path: Path) -> None:
        first, second = tmp_path / "a.toml", tmp_path / "b.toml"
        first.write_text('[[rule]]\ncategory = "MoE"\npattern = "abc"\n')
        second.write_text('[[rule]]\ncategory = "RoPE"\npattern = "abcd"\n')
        both = KERNEL_RULES.with_file(first).with_file(second)
        assert kernel_categories([("abc", ""), ("abcd", "")], both) == ["MoE", "RoPE"]

    def test_empty_file_adds_nothing(self, tmp_path: Path) -> None:
        file = tmp_path / "rules.toml"
        file.write_text("")
        assert KERNEL_RULES.with_file(file).rules == KERNEL_RULES.rules

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[[rule]\n", "is no TOML file"),
            ("rule = 3\n", r"\[\[rule\]\]"),
            ("rules = []\n", "no 'rules' in kernel rules"),
            ("[[rule]]\npattern = 'x'\n", "rule 1: the category is missing"),
            ("[[rule]]\ncategory = 'MoE'\n", "rule 1: neither pattern nor op"),
            ("[[rule]]\ncategory = 'MoE'\npattern = ''\n", "rule 1: neither pattern nor op"),
            ("[[rule]]\ncategory = 'MoE'\npattern = 3\n", "rule 1: a rule holds texts"),
            ("[[rule]]\ncategory = 'MoE'\npatern = 'x'\n", "rule 1: there is no 'patern'"),
            (
                "[[rule]]\ncategory = 'MoE'\npattern = 'x'\n[[rule]]\ncategory = 'Gem'\npattern = 'x'\n",
                r"rule 2: there is no category 'Gem'; did you mean GEMM\?",
            ),
            ("[[rule]]\ncategory = 'Zzz'\npattern = 'x'\n", r"declared in \[categories\]"),
            ("[[rule]]\ncategory = 'MoE'\npattern = '('\n", "rule 1: '\\(' is no regular expression"),
            ("[[rule]]\ncategory = 'MoE'\nop = '[a'\n", "rule 1: '\\[a' is no regular expression"),
            ("[categories]\nGlue = 3\n", r"\[categories\] holds names"),
            ("categories = ['Glue']\n", r"\[categories\] holds names"),
            ("rule = [3]\n", "rule 1: a rule holds texts"),
        ],
    )
    def test_mistakes_are_named(self, text: str, message: str, tmp_path: Path) -> None:
        file = tmp_path / "rules.toml"
        file.write_text(text)
        with pytest.raises(AnalysisError, match=message) as caught:
            KERNEL_RULES.with_file(file)
        assert str(file) in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_file_that_is_not_there_or_no_text(self, tmp_path: Path) -> None:
        with pytest.raises(AnalysisError, match="cannot read kernel rules from .*nowhere.toml: No such file"):
            KERNEL_RULES.with_file(tmp_path / "nowhere.toml")
        for content in (b"\xff\xfe\x00", b"x = " + 3000 * b"["):
            (tmp_path / "broken.toml").write_bytes(content)
            with pytest.raises(AnalysisError, match="is no TOML file"):
                KERNEL_RULES.with_file(tmp_path / "broken.toml")

    def test_rules_can_be_made_from_nothing(self) -> None:
        rules = KernelRules((KernelRule("Mine", "x"),), {"Mine": ""}, "Theirs")
        assert kernel_categories([("axe", ""), ("gemm", "")], rules) == ["Mine", "Theirs"]


def test_a_name_is_compared_with_the_rules_once() -> None:
    """Several tables ask for the same names; each of the rules is tried for a name the first time only."""
    names = [f"void kernel_{number}(float*)" for number in range(50)]
    first = calls(lambda: kernel_categories((name, "") for name in names))
    again = calls(lambda: [kernel_category(name) for name in names])
    assert again < first / 5
    own = KernelRules((KernelRule("Mine", "kernel_7"), *KERNEL_RULES.rules), {**KERNEL_RULES.categories, "Mine": "own"})
    assert kernel_category(names[7], rules=own) == "Mine"
    assert kernel_category(names[7]) == "Other"
    assert kernel_category("x" * 10_000 + "gemm", rules=own) == "Other"
