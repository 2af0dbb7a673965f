"""`bearer`: the token in the `Authorization` headers of a request (RFC 6750). No state."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["CHALLENGE", "bearer"]

CHALLENGE = {"WWW-Authenticate": 'Bearer realm="hub"'}
"""What goes with HTTP 401."""

_SCHEME = "bearer "


def bearer(headers: Sequence[str]) -> str:
    """Return what `Authorization` headers show; empty if there are none.

    Whatever is no single `Bearer` with a token is returned as a text that no token is: who shows something wrong is not
    taken for somebody who shows nothing.
    """
    if not headers:
        return ""
    shown = ", ".join(headers)
    if shown[: len(_SCHEME)].lower() != _SCHEME:
        return f" {shown}"
    return shown[len(_SCHEME) :].strip() or " "
