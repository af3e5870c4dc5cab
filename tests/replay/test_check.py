"""A program that somebody changed is told apart."""

from __future__ import annotations

import pytest
from replay_plans import converted, mm, scaled

from tracelens_graph.replay.batch import runner
from tracelens_graph.replay.check import PROGRAMS, ForeignProgramError, check
from tracelens_graph.replay.script import script


@pytest.mark.parametrize("plan", [mm(), scaled((2,), (3, 4)), scaled(), converted()])
def test_programs_as_written(plan: object) -> None:
    check(script(plan))  # type: ignore[arg-type]
    check(script(plan).encode())  # type: ignore[arg-type]


def test_the_runner_of_many_operations() -> None:
    check(runner())


def test_formatting_and_comments_do_not_matter() -> None:
    check(script(mm()).replace("\n\n\n", "\n\n# a comment\n\n\n").replace("DEVICE, LARGEST =", "DEVICE,LARGEST  ="))


CHANGES = {
    "a statement in a function": ("    return 0\n", "    print()\n    return 0\n", "main is not as this version"),
    "another constant": ('DEVICE = "cpu"', 'DEVICE = "gpu"', "DEVICE is not as"),
    "a statement more": ("\n\nDEVICE =", "\n\nprint()\nDEVICE =", "line"),
    "a statement at the end": ("sys.exit(main())\n", "sys.exit(main())\nprint()\n", "statements"),
    "another import": ("import json\n", "import json as os\n", "an import is not"),
    "an import less": ("import json\n", "", "an import is not"),
    "a name in data": ("return [tensor([64, 32]", "return [tensor([x, 32]", "it is no data"),
    "a call in data": ("return [tensor([64, 32]", "return [exec([64, 32]", "it is no data"),
    "a method in data": ("return [tensor([64, 32]", "return [tensor([64, 32].copy()", "it is no data"),
    "bytes in data": ('"bfloat16")', 'b"bfloat16")', "it is no data"),
    "a text put together": ('"bfloat16")', 'f"{1}")', "it is no data"),
    "a list put together": ("tensor([64, 32]", "tensor([n for n in [64]]", "it is no data"),
    "arguments by a star": ("tensor([64, 32]", "tensor(*[64, 32]", "it is no data"),
    "arguments by two stars": ('[32, 16], "bfloat16", ', '[32, 16], "bfloat16", **{}, ', "an argument is no constant"),
    "a dictionary in another": ('    "op": ', '    **{}, "op": ', "a key is no constant"),
    "another rule": ('[64, 32], "bfloat16"', '[64, 32], "bfloat16", fill="exec"', "nothing is called"),
    "a call of what is no operation": ('"aten.mm.default"', '"aten.mm.default.__class__"', "names no operation"),
    "a statement before the data": ("    return [tensor", "    print()\n    return [tensor", "arguments is not as"),
    "two of one": ("\n\nDEVICE =", "\n\nOPERATION = {}\nDEVICE =", "line"),
    "a decorator": ("def arguments(", "@print\ndef arguments(", "arguments is not as"),
    "a default": ("def arguments()", "def arguments(x=print())", "arguments is not as"),
    "another target": ("OPERATION: dict[str, Any] = {", "main = OPERATION = {", "OPERATION is not as"),
    "an annotation": ("OPERATION: dict[str, Any]", "OPERATION: print()", "OPERATION is not as"),
    "no docstring": ('"""', 'f"""', "docstring"),
    "an encoding": ('"""', '# coding: utf-7\n"""', "encoding"),
    "other characters": ("gemm_kernel", "gémm", "ASCII"),
    "no Python": ("def main", "def def main", "no Python"),
    "a zero byte": ("gemm_kernel", "gemm\0", "no Python"),
    "too deep": ("tensor([64, 32]", "tensor(" + "[" * 300 + "]" * 300, "no Python"),
    "no function": ("def arguments()", "def other()", "no program of tracelens_graph|is not as"),
}


@pytest.mark.parametrize(("before", "after", "reason"), CHANGES.values(), ids=CHANGES)
def test_changed_programs(before: str, after: str, reason: str) -> None:
    source = script(mm())
    assert before in source
    with pytest.raises(ForeignProgramError, match=reason) as error:
        check(source.replace(before, after, 1))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("source", ["", '"""text"""\n', "print()\n", b"\xff\xfe", b"\x80", "\ufeff"])
def test_other_files(source: str | bytes) -> None:
    with pytest.raises(ForeignProgramError):
        check(source)


def test_only_the_last_kind_has_no_data() -> None:
    assert [one for one in PROGRAMS if not one.slots] == [PROGRAMS[-1]]
