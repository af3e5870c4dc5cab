"""What a program of custom operations that come along has above its calls: libraries, and what stands in for them."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources

from tracelens_graph.replay.custom.entry import Shipped
from tracelens_graph.replay.custom.lookup import shipped

_CUT = "# What stands below goes into programs.\n"
_IMPORTS = {"import_module": "importlib", "pairwise": "itertools", "Any": "typing", "Tensor": "torch"}
"""Names that functions use -> modules that have them."""


def only_writes(op: str) -> bool:
    """Whether an operation that comes along writes arguments that it does not read."""
    found = shipped(op)
    return found is not None and not found.is_changed


def preamble(calls: Mapping[str, tuple[str, Sequence[str]]], imports: bool = True) -> str:
    """Lines that define operations that come along by their references, and import their libraries.

    With `--reference` an operation is called through PyTorch's dispatcher as that of the library is, and computes the
    same in plain torch. What is no operation of PyTorch's is defined in any case, and calls the library's function.

    Args:
        calls: names of operations, as they were traced -> the schema that the program calls, and the modules that it
            is to import. Whatever is not as it comes along is passed over.
        imports: whether libraries are imported here; where one is not there the program ends with one line.
    """
    known = {
        op: found
        for op, (schema, modules) in calls.items()
        if (found := shipped(op)) and schema in found.schemas and tuple(modules) == tuple(found.imports)
    }
    if not known:
        return ""
    functions = "\n\n".join(_functions(known.values()))
    used = {node.id for node in ast.walk(ast.parse(functions)) if isinstance(node, ast.Name)}
    lines = [f"from {module} import {name}" for name, module in _IMPORTS.items() if name in used]
    lines += ["", functions, "", "LIBRARIES = []  # they live as long as this list", "", *_DEFINE.splitlines(), ""]
    for op, found in known.items():
        namespace, schema = op.partition("::")[0], calls[op][0]
        call = f'define("{op}", {json.dumps(schema.removeprefix(namespace + "::"))}, '
        if found.library:
            lines.append(f'{call}{found.reference} if "--reference" in sys.argv else {found.library})')
        else:
            lines += ['if "--reference" in sys.argv:', f"    {call}{found.reference})"]
    if imports:
        modules = sorted({module for found in known.values() for module in found.imports})
        lines += [line.format(modules=", ".join(modules)) for line in _IMPORT.splitlines()]
    return "\n".join([*lines, ""])


_DEFINE = '''def define(op, schema, function):
    """Let an operation compute what a function does."""
    namespace, _, name = op.partition("::")
    LIBRARIES.append(torch.library.Library(namespace, "FRAGMENT"))
    LIBRARIES[-1].define(schema)
    LIBRARIES[-1].impl(name, function, "CompositeExplicitAutograd")
'''
_IMPORT = """if "--reference" not in sys.argv:
    try:
        import {modules}
    except ImportError as error:
        sys.exit(f"{{error}}; --reference runs plain torch in its place")
"""


def _functions(known: Iterable[Shipped]) -> Iterator[str]:
    """The text of all functions that references and calls of libraries need, each once."""
    sources = _sources()
    wanted = [name for found in known for name in (found.reference, found.library) if name]
    for name in dict.fromkeys(one for first in wanted for one in _called(first, sources)):
        yield sources[name]


def _called(name: str, sources: dict[str, str]) -> Iterator[str]:
    """A function's own functions, and it behind them."""
    used = {node.id for node in ast.walk(ast.parse(sources[name])) if isinstance(node, ast.Name)}
    for other in sorted(used & sources.keys() - {name}):
        yield from _called(other, sources)
    yield name


@cache
def _sources() -> dict[str, str]:
    """Name -> text of each function that goes into programs."""
    text = (resources.files("tracelens_graph.replay") / "program" / "references.py").read_text(encoding="utf-8")
    body = text.partition(_CUT)[2].replace("  # fmt: skip", "")
    functions = [one for one in ast.parse(body).body if isinstance(one, ast.FunctionDef)]
    return {one.name: ast.get_source_segment(body, one) or "" for one in functions}
