"""Listings: which topics a block may hold, short enough to be searched instead of it.

A listing is up to `LISTED_LIMIT` texts, one a line, such that each topic of the block begins with one of them: the
topics themselves if they are few, else as many of their first components as leave so few. A reader that wants some
prefixes passes over blocks whose listing agrees with none of them (`hub.journal.wanted`).

Invariant: each topic begins with one of the texts. Cost: `listing` once a block, 0.1 µs a distinct topic where they are
few, else about 1 µs for each, times the logarithm of their depth.
"""

from __future__ import annotations

from collections.abc import Iterable

from hub.errors import JournalCorruptError

__all__ = ["LISTED_LIMIT", "listed_texts", "listing"]

LISTED_LIMIT = 64
"""Most texts of a listing. A site's logs have about as many topics; 64 of 20 bytes are 1.3 KiB beside 1 MiB."""

_SEPARATOR = "\n"  # no topic holds a control character


def listing(topics: Iterable[str]) -> bytes:
    """Return the listing of these topics."""
    return _SEPARATOR.join(sorted(_shortened(set(topics)))).encode()


def listed_texts(listed: bytes) -> list[str]:
    """Return the texts of a listing.

    Raises:
        JournalCorruptError: It is none.
    """
    try:
        return listed.decode().split(_SEPARATOR)
    except UnicodeDecodeError as error:
        raise JournalCorruptError("a listing of topics that is no text") from error


def _shortened(texts: set[str]) -> set[str]:
    """Leave as many components as give few enough texts; without any, one empty text is left.

    Fewer components never give more texts, so that the right number is found by halving.
    """
    if len(texts) <= LISTED_LIMIT:
        return texts
    fits, too_many = -1, max(text.count("/") for text in texts)
    best = {""}
    while too_many - fits > 1:
        slashes = (fits + too_many) // 2
        cut = {_cut(text, slashes) for text in texts}
        if len(cut) > LISTED_LIMIT:
            too_many = slashes
        else:
            fits, best = slashes, cut
    return best


def _cut(text: str, slashes: int) -> str:
    """Return what stands before the slash behind so many of them."""
    parts = text.split("/", slashes + 1)
    return text if len(parts) <= slashes + 1 else text[: -len(parts[-1]) - 1]
