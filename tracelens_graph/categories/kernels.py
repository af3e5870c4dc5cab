"""The category of a kernel, by its name and the op that launched it: the engine, and rules from a user's file.

One table of rules serves every front end, whether ops are known (PyTorch), or a graph launch hides them, or names are
those of a compiler (JAX). KernelRules are data that is passed along; nobody's rules change those of anybody else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from tracelens_graph.categories.kernel_rules import CATEGORIES, NAME_RULES, OP_RULES, OTHER
from tracelens_graph.errors import AnalysisError
from tracelens_graph.op_table import OP_TABLE
from tracelens_graph.utils.patterns import LazyPattern
from tracelens_graph.utils.suggest import did_you_mean

LONGEST = 8192
"""Characters of a name that are looked at. Names of C++ templates can be megabytes long; what counts stands first."""

_MOST_KEPT, _LONGEST_KEPT = 1 << 14, 4096
"""Names whose fitting rules are kept, and characters of one: several tables of a report ask for the same."""

_FIELDS = {"category", "pattern", "op"}


@dataclass(frozen=True)
class KernelRule:
    """A category of kernels, with patterns for the kernel's name and its op.

    Attributes:
        category: the category.
        pattern: regular expression looked for in the kernel's name; "" fits every name.
        op: regular expression looked for in the name or category of the launching op; "" fits every op, and none.
    """

    category: str
    pattern: str = ""
    op: str = ""

    @cached_property
    def in_name(self) -> Callable[[str], object]:
        """Says whether the pattern of names fits a name in lower case."""
        return _lazy(self.pattern).search

    @cached_property
    def _in_op(self) -> LazyPattern:
        return _lazy(self.op)

    def fits_op(self, op: str) -> bool:
        """Whether the pattern of ops fits an op in lower case."""
        return not self.op or self._in_op.search(op) is not None


@dataclass(frozen=True, eq=False)
class KernelRules:
    """What categories of kernels are found by: the first rule that fits counts.

    Attributes:
        rules: the rules, in order.
        categories: category -> what is in it.
        other: category of a kernel that no rule fits.
    """

    rules: tuple[KernelRule, ...]
    categories: Mapping[str, str]
    other: str = OTHER

    def fitting(self, name: str) -> list[KernelRule]:
        """The rules that fit a kernel's name under some op or other, in order."""
        if (kept := _KEPT.get(self)) is None:
            kept = _KEPT[self] = _Kept({}, {})
        if (found := kept.of_name.get(name)) is None:
            fits = self._fitting(name[:LONGEST].lower())
            # Many names fit the same rules; sharing the list keeps the memory for them small.
            found = kept.alike.setdefault(tuple(map(id, fits)), fits)
            if len(name) <= _LONGEST_KEPT:
                if len(kept.of_name) >= _MOST_KEPT:
                    kept.of_name.clear()
                kept.of_name[name] = found
        return found

    def _fitting(self, name: str) -> list[KernelRule]:
        found = []
        for fits, rule in self._by_name:
            if fits(name) is not None:
                found.append(rule)
                # A rule for every op always fits, so that no later one can be the first.
                if not rule.op:
                    break
        return found

    @cached_property
    def _by_name(self) -> list[tuple[Callable[[str], object], KernelRule]]:
        return [(rule.in_name, rule) for rule in self.rules]

    def category(self, fitting: Iterable[KernelRule], op: str) -> str:
        """Category of a kernel that an op launched, of the rules that fit its name."""
        op = op[:LONGEST].lower()
        return next((rule.category for rule in fitting if rule.fits_op(op)), self.other)

    def with_file(self, path: str | Path) -> KernelRules:
        """These rules behind those of a TOML file, which therefore win.

        The file holds entries `[[rule]]` with `category` and `pattern`, `op`, or both. A category that is not among
        the known ones is declared in a table `[categories]`: its name, and what is in it.

        Raises:
            AnalysisError: the file cannot be read, or an entry is wrong; the message names the file and the entry.
        """
        import tomllib

        try:
            content = tomllib.loads(Path(path).read_text("utf-8"))
        except OSError as error:
            raise AnalysisError(f"cannot read kernel rules from {path}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise AnalysisError(f"{path} is no TOML file: {error}") from error
        own = _declared(content, f"{path}")
        categories = {**self.categories, **own}
        entries = content.get("rule", [])
        if not isinstance(entries, list):
            raise AnalysisError(f"{path}: rules are written [[rule]], with two pairs of brackets")
        rules = [_rule(entry, categories, f"{path}, rule {i}") for i, entry in enumerate(entries, 1)]
        return replace(self, rules=(*rules, *self.rules), categories=categories)


@dataclass(frozen=True)
class _Kept:
    """Fitting rules that were found: of names, and each list once, because the same few serve millions of names."""

    of_name: dict[str, list[KernelRule]]
    alike: dict[tuple[int, ...], list[KernelRule]]


_KEPT: WeakKeyDictionary[KernelRules, _Kept] = WeakKeyDictionary()


def _built_in() -> Iterable[KernelRule]:
    for category, patterns in NAME_RULES:
        for pattern in patterns:
            yield KernelRule(category, pattern) if isinstance(pattern, str) else KernelRule(category, *pattern)
    for category, op in OP_RULES:
        yield KernelRule(category, op=op)


KERNEL_RULES = KernelRules(tuple(_built_in()), CATEGORIES)
"""The rules of `kernel_rules`."""


def kernel_category(name: str, op: str = "", rules: KernelRules = KERNEL_RULES) -> str:
    """Category of a kernel.

    Args:
        name: the kernel, as the profiler wrote it, mangled or not.
        op: name or category of the op that launched it, where known.
        rules: what to find it by; `KERNEL_RULES` by default.
    """
    return rules.category(rules.fitting(name), op)


def kernel_categories(kernels: Iterable[tuple[str, str]], rules: KernelRules = KERNEL_RULES) -> list[str]:
    """Categories of many kernels, each given by its name and its op; a name is compared with the rules once."""
    return [rules.category(rules.fitting(name), op) for name, op in kernels]


def category_of_op(op: str, rules: KernelRules = KERNEL_RULES) -> str:
    """Category of an op whose kernels do not show it: by its name, else from the table of ops."""
    found = kernel_category("", op, rules)
    entry = OP_TABLE.get(op) if found == rules.other else None
    return kernel_category("", entry.category or entry.sheet, rules) if entry else found


def _lazy(pattern: str) -> LazyPattern:
    # Names are in lower case; a pattern that is so too needs no flag, which would keep it from looking for its words.
    return LazyPattern(pattern, ignores_case=pattern != pattern.lower())


def _declared(content: Mapping[str, Any], where: str) -> dict[str, str]:
    """The categories that a file declares."""
    if unknown := sorted(content.keys() - {"rule", "categories"}):
        raise AnalysisError(f"{where}: there is no {unknown[0]!r} in kernel rules, only 'rule' and 'categories'")
    own = content.get("categories", {})
    if not isinstance(own, dict) or not all(name.strip() and isinstance(text, str) for name, text in own.items()):
        raise AnalysisError(f"{where}: [categories] holds names of categories and, as text, what is in them")
    return own


def _rule(entry: Any, categories: Mapping[str, str], where: str) -> KernelRule:
    if not isinstance(entry, dict) or not all(isinstance(value, str) for value in entry.values()):
        raise AnalysisError(f"{where}: a rule holds texts: category, and pattern or op or both")
    if unknown := sorted(entry.keys() - _FIELDS):
        raise AnalysisError(f"{where}: there is no {unknown[0]!r} in a rule, only category, pattern and op")
    if "category" not in entry:
        raise AnalysisError(f"{where}: the category is missing")
    if not (entry.get("pattern") or entry.get("op")):
        raise AnalysisError(f"{where}: neither pattern nor op is given, so the rule would fit every kernel")
    if entry["category"] not in categories:
        hint = did_you_mean(entry["category"], categories) or "one of your own is declared in [categories]"
        raise AnalysisError(f"{where}: there is no category {entry['category']!r}; {hint}")
    rule = KernelRule(**entry)
    for pattern in (rule.pattern, rule.op):
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise AnalysisError(f"{where}: {pattern!r} is no regular expression: {error}") from error
    return rule
