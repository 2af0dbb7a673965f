"""Listings: which topics a block may hold, short enough to be searched instead of it.

A listing is up to `LISTED_LIMIT` texts, one a line, such that each topic of the block begins with one of them: the
topics themselves if they are few, else their first components. A reader that wants some prefixes passes over blocks
whose listing agrees with none of them.

Invariant: never passes over a topic that is wanted. Cost: `listing` once a block, 0.3 µs a distinct topic; `may_hold`
a few microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["LISTED_LIMIT", "listing", "may_hold", "merged"]

LISTED_LIMIT = 64
"""Most texts of a listing. A site's logs have about as many topics; 64 of 20 bytes are 1.3 KiB beside 1 MiB."""

_SEPARATOR = "\n"  # no topic holds a control character


def listing(topics: Sequence[str]) -> bytes:
    """Return the listing of these topics."""
    texts = set(topics)
    while len(texts) > LISTED_LIMIT:
        texts = _shortened(texts)
    return _SEPARATOR.join(sorted(texts)).encode()


def merged(listings: Sequence[bytes]) -> bytes:
    """Return one listing for several blocks."""
    return listing([text for one in listings for text in one.decode().split(_SEPARATOR)])


def may_hold(listed: bytes, prefixes: tuple[str, ...]) -> bool:
    """Whether a block with this listing may hold a topic under one of `prefixes`."""
    for text in listed.decode().split(_SEPARATOR):
        if text.startswith(prefixes) or any(prefix.startswith(text) for prefix in prefixes):
            return True
    return False


def _shortened(texts: set[str]) -> set[str]:
    """Cut the texts with the most components by one; in the end there is one empty text."""
    depth = max(text.count("/") for text in texts)
    if not depth:
        return {""}
    return {text.rpartition("/")[0] if text.count("/") == depth else text for text in texts}
