"""Hints for a name that does not exist: the names that were probably meant, or a list of those there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

_MOST_MEANT = 8
_MOST_LISTED = 60


def hint(wanted: str, known: Iterable[str]) -> str:
    """The question which name was meant; without one that comes close, the list of all names."""
    known = list(known)
    return did_you_mean(wanted, known) or there_are(known)


def did_you_mean(
    wanted: str,
    known: Iterable[str],
    *,
    aliases: Mapping[str, str] | None = None,
    most: int = 1,
    cutoff: float = 0.6,
) -> str:
    """`did you mean a, b or c?`, or nothing if no name comes close.

    Letter case does not count. Names that begin with what was wanted are preferred to names that merely resemble it.

    Args:
        wanted: the name that does not exist.
        known: names that do.
        aliases: other spellings -> the name to suggest.
        most: number of similar names, best first.
        cutoff: least similarity, from 0 to 1, as `difflib.get_close_matches` takes it. Names with a common prefix, such
            as ops, need a higher one.
    """
    names = {name.casefold(): name for name in known}
    names |= {alias.casefold(): name for alias, name in (aliases or {}).items()}
    sought = wanted.casefold()
    near = [sought] if sought in names else [one for one in names if sought and one.startswith(sought)]
    if not near:
        from difflib import get_close_matches

        near = get_close_matches(sought, names, most, cutoff)
    meant = list(dict.fromkeys(names[one] for one in near))
    return f"did you mean {either(meant)}?" if meant else ""


def there_are(known: Iterable[str], most: int = _MOST_LISTED) -> str:
    """`there are a, b, c`; a list of more than `most` names is cut short, and says how many are left out."""
    names = list(known)
    shown, more = _shortened(names, most)
    return f"there are {', '.join(shown) or 'none'}{more and f' and {more}'}"


def either(names: Sequence[str]) -> str:
    """`a, b or c`; of many names the first few, and how many are left out."""
    shown, more = _shortened(names, _MOST_MEANT)
    *first, last = [*shown, more] if more else shown
    return f"{', '.join(first)} or {last}" if first else last


def _shortened(names: Sequence[str], most: int) -> tuple[list[str], str]:
    """The first names, and in words how many are left out."""
    left_out = max(0, len(names) - most)
    return [_quoted(name) for name in names[:most]], f"{left_out:,} more" if left_out else ""


def _quoted(name: str) -> str:
    """The name as it is if it is one plain word, else in quotes, so that it stands apart from its neighbours."""
    is_word = bool(name) and name.isprintable() and not {",", " "} & set(name)
    return name if is_word else repr(name)
