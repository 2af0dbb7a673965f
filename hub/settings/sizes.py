"""Sizes such as `64MiB`, as text."""

from __future__ import annotations

import re

_SIZE = re.compile(r"([0-9][0-9_]{0,17}) ?(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)?", re.IGNORECASE | re.ASCII)

_UNITS_BYTES: dict[str, int] = (
    {"b": 1}
    | {unit + "ib": 1024**power for power, unit in enumerate("kmgt", 1)}
    | {unit + "b": 1000**power for power, unit in enumerate("kmgt", 1)}
)


def parse_size(text: str) -> int:
    """Read a size: "65536", "64KiB", "16 MiB" (powers of 1024), "1GB" (powers of 1000). Case does not matter.

    Raises:
        ValueError: The text is not a size.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError("expected a size such as 1048576, '64KiB' or '1MB'")
    return int(found[1]) * _UNITS_BYTES[(found[2] or "B").lower()]
