"""When to come back: said at the end of the text of a close, so that it is the same in every protocol.

`the hub stops; retry after 2.5 s`: whoever does not know of it shows it to people. No state, no I/O.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["RETRY_LIMIT_S", "retry_after_s", "with_retry"]

RETRY_LIMIT_S: Final = 3600.0
"""Nobody is asked to wait longer, and who is told a longer time waits so long, seconds."""

_RETRY = re.compile(r"; retry after ([0-9]{1,6}(?:\.[0-9]{1,3})?) s\Z")


def with_retry(text: str, seconds: float) -> str:
    """Return the text of a close that says when to come back."""
    return f"{text}; retry after {seconds:.1f} s"


def retry_after_s(text: str) -> float | None:
    """Return how long to wait before coming back, seconds; None if the text of a close does not say so."""
    found = _RETRY.search(text)
    return None if found is None else min(float(found[1]), RETRY_LIMIT_S)
