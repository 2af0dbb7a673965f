"""`parse_size`: how many bytes a text such as `64MiB` means, wherever people say a size. No state."""

from __future__ import annotations

import re

__all__ = ["parse_size"]

_KIB = 1024
_MIB = 1024 * _KIB
_GIB = 1024 * _MIB
_TIB = 1024 * _GIB

_SIZE = re.compile(r"([0-9][0-9_]{0,17}) ?(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)?", re.IGNORECASE | re.ASCII)

_UNITS_BYTES = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": _KIB,
    "mib": _MIB,
    "gib": _GIB,
    "tib": _TIB,
}


def parse_size(text: str) -> int:
    """Read a size: "65536", "64KiB", "16 MiB" (powers of 1024), "1GB" (powers of 1000). Case does not matter.

    Returns:
        Bytes, 0 or more.

    Raises:
        ValueError: It is none.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError("expected a size such as 1048576, '64KiB' or '1MB'")
    return int(found[1]) * _UNITS_BYTES[(found[2] or "B").lower()]
