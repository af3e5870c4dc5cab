"""Names of hosts, and of switches in them: kept as hashes alone, since real traces carry names of private machines."""

from __future__ import annotations

import re
from hashlib import blake2b

_HASH = re.compile("[0-9a-f]{16}")
_LAST_NUMBER = re.compile(r"^(?P<before>.*?)(?:[-_]?[a-z]{2,}[-_]?|[-_]?[a-z]|[-_])?\d+$", re.IGNORECASE)


def is_hash(text: str) -> bool:
    """Whether a text is what `hashed` makes."""
    return _HASH.fullmatch(text) is not None


def hashed(name: str) -> str:
    """A name as a hash: equal for equal names."""
    return blake2b(name.encode("utf-8", "replace"), digest_size=8).hexdigest()


def switch_in(host: str) -> str:
    """The part of a host's name that hosts of one switch, rack or cell share; empty if its name has none.

    >>> [switch_in(name) for name in ("rack2-node05", "r03n07", "node7", "n7.rack2.example.org", "gpu-b-12")]
    ['rack2', 'r03', '', 'rack2.example.org', 'gpu-b']
    """
    name, _, domain = host.partition(".")
    found = _LAST_NUMBER.match(name)
    before = found["before"] if found else ""
    return ".".join(part for part in (before, domain) if part)
