"""Programs as text: a heading, a plan as JSON, and one fixed runner.

A trace is untrusted. Its text stands in the JSON alone, in which nothing can end the string around it, and in the
heading, in printable ASCII without quotes. The runner is the same in every program of a kind.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources
from typing import Any, ClassVar, Literal

ProgramKind = Literal["op", "sequence", "collectives", "triton", "instruction", "batch"]

_CORE = ("values", "timing", "measure")
_MODULES: dict[ProgramKind, tuple[str, ...]] = {
    "op": (*_CORE, "operations"),
    "batch": (*_CORE, "operations"),
    "sequence": (*_CORE, "sequence"),
    "triton": (*_CORE, "triton"),
    "collectives": ("collectives",),
    "instruction": ("instruction",),
}
"""ProgramKind of a program -> modules of `replay/program/` whose text is its runner."""

_CUT = "\n# What stands below goes into programs.\n"
"""Line of such a module under its imports and the plan that it is tested with."""
_ESCAPED = re.compile(r'\\(["\\])')
_IMPORT = re.compile(r"^(?:import|from) (?!__future__|tracelens_graph).*", re.MULTILINE)
_WIDTH = 100


class HasProgram:
    """A plan that becomes a program.

    Attributes:
        kind: what its program runs.
    """

    kind: ClassVar[ProgramKind]

    @property
    def about(self) -> str:
        """The heading of its program."""
        raise NotImplementedError

    def json(self) -> dict[str, Any]:
        """The plan as plain data, from which its program makes everything."""
        raise NotImplementedError

    def script(self) -> str:
        """Its program: one file, which needs PyTorch, or JAX, alone."""
        return program(self.kind, self.about, self.json())


def program(kind: ProgramKind, about: str, plan: Any) -> str:
    """A program: one file, which needs a framework and nothing of this package.

    Args:
        kind: what it runs.
        about: its heading, which is the program's `--help`, too.
        plan: what it runs, as JSON's values; lists, one below another, are tuples or lists.
    """
    heading = re.sub(r"[^\n !#-~]", "'", about.rstrip("\n"))
    return (
        f'r"""{heading}\n"""\n\nfrom __future__ import annotations\n\nimport json\n\n'
        f'PLAN = json.loads(r"""\n{json_text(plan)}\n""")\n\n{runner(kind)}'
    )


@cache
def runner(kind: ProgramKind) -> str:
    """The text of all programs of a kind that stands below their plans."""
    imports, bodies = set(), []
    for module in _MODULES[kind]:
        source = (resources.files(__package__) / "program" / f"{module}.py").read_text(encoding="utf-8")
        head, _, body = source.partition(_CUT)
        imports |= set(_IMPORT.findall(head))
        bodies.append(body.strip("\n"))
    start = 'if __name__ == "__main__":\n    sys.exit(main())\n'
    return "\n\n\n".join(["\n".join(sorted(imports)), *bodies, start])


def json_text(value: Any, indent: str = "") -> str:
    """JSON in ASCII, without a backslash before a quote or another one: lists and objects on one line, if they fit."""
    line = _ESCAPED.sub(lambda found: f"\\u{ord(found[1]):04x}", json.dumps(value))
    if len(indent) + len(line) <= _WIDTH or not value or not isinstance(value, dict | list | tuple):
        return line
    inner = indent + " "
    if isinstance(value, dict):
        entries = [f"{json_text(key)}: {json_text(one, inner)}" for key, one in value.items()]
        opening, closing = "{}"
    else:
        entries = [json_text(one, inner) for one in value]
        opening, closing = "[]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(entries) + f"\n{indent}{closing}"
