"""`bounded_session`: requests to a collector of which the answer's first line counts, and hardly anything else.

A collector answers some bytes, as a rule none. The library reads all that it says, and unpacks it: without this, one
that answers a gigabyte, or a small archive of one, takes the hub's memory. A redirect is a failure, and not followed:
the headers may hold secrets, and the library takes such an answer for a success.

Owner: the exporter. Bound: `ANSWER_BYTES` of an answer, as they travel. Cost: a connection is used again, unless an
answer was not read.
"""

from __future__ import annotations

from typing import Any, Final

import requests
from requests.exceptions import TooManyRedirects

__all__ = ["ANSWER_BYTES", "bounded_session"]

ANSWER_BYTES: Final = 4_096
"""Largest answer that is read: an OTLP response without complaints is empty. Of a longer one, or one that does not say
how long it is, the connection is closed."""

_REDIRECTS: Final = range(300, 400)


def bounded_session() -> requests.Session:
    """Return what sends requests."""
    session = requests.Session()
    session.stream = True  # whoever gets an answer has its head, and reads what else he wants
    session.hooks["response"].append(_settle)
    return session


def _settle(response: requests.Response, **_: Any) -> None:
    """Read a short answer, so that the connection can be used again; close that of any other.

    Raises:
        TooManyRedirects: The collector is elsewhere.
    """
    if response.status_code in _REDIRECTS:
        response.close()
        raise TooManyRedirects(f"it answers {response.status_code}, and redirects are not followed", response=response)
    length = response.headers.get("content-length", "")
    is_short = length.isascii() and length.isdigit() and len(length) <= len(str(ANSWER_BYTES))
    if is_short and int(length) <= ANSWER_BYTES and "content-encoding" not in response.headers:
        response.content  # noqa: B018 -- it is read, and stays there for whoever asks for it
        return
    response.close()
    response._content = b""  # noqa: SLF001 -- else whoever asks for it would read on
