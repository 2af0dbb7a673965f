"""Topics and prefixes: their valid forms, and their bytes on the wire.

A topic is UTF-8, 1 to 1024 bytes, without control characters. A subscription is a plain string prefix: `/a` matches
`/a`, `/a/b` and `/ab`; the empty prefix matches everything. Nothing is normalised: the string that was checked is
routed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from hub.errors import InvalidTopicError

TOPIC_LIMIT_BYTES = 1024  # Of a topic or prefix

RESERVED = "$hub/"  # Topics under this prefix are the hub's own: clients may subscribe to them, not publish

STORES = "$store/"  # Topics of stores. Only a prefix that begins like this covers them

_CHANGES = "changes"

# C0, DEL and C1: a topic ends up in terminals and logs, where these act. Surrogates cannot be encoded.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

_SEPARATOR = "\n"  # of prefixes that are looked at together: none may hold it
_FORBIDDEN_BESIDE_IT = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

_SHOWN_CHARACTERS = 80


def printable(text: str) -> str:
    """Return `text` quoted, escaped and shortened, fit for one line of an error."""
    return ascii(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…")


def _check(text: str, what: str) -> None:
    try:
        if text.isascii() and text.isprintable() and len(text) <= TOPIC_LIMIT_BYTES:
            return  # nearly all; the rest finds the fault of the others
    except AttributeError:
        raise InvalidTopicError(f"{what} is a str, not {type(text).__name__}: {text!r:.80}") from None
    found = _FORBIDDEN.search(text)
    if found is not None:
        raise InvalidTopicError(
            f"{what} {printable(text)} has the control character U+{ord(found[0]):04X} at character {found.start()}"
        )
    size_bytes = len(text.encode())
    if size_bytes > TOPIC_LIMIT_BYTES:
        raise InvalidTopicError(
            f"{what} {printable(text)} is {size_bytes} bytes long, the limit is {TOPIC_LIMIT_BYTES} bytes"
        )


def check_topic(topic: str) -> str:
    """Return `topic` if messages may bear it.

    Raises:
        InvalidTopicError: It is empty, too long or has control characters; the text says which and where.
    """
    if not topic:
        raise InvalidTopicError("topic is empty, it must have 1 to 1024 bytes")
    _check(topic, "topic")
    return topic


def check_prefix(prefix: str) -> str:
    """Return `prefix` if it can be subscribed to; the empty prefix matches everything.

    Raises:
        InvalidTopicError: It is too long or has control characters.
    """
    _check(prefix, "prefix")
    return prefix


def store_that_tells(topic: str) -> str | None:
    """Return the name of the store that publishes its changes under a topic (`$store/NAME/changes/`), or None."""
    if not topic.startswith(STORES):
        return None
    name, *rest = topic.removeprefix(STORES).split("/", 2)
    return name if rest[:1] == [_CHANGES] else None


def _decode(raw: bytes, what: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        shown = raw[:_SHOWN_CHARACTERS]
        raise InvalidTopicError(f"{what} {shown!r} is not UTF-8 at byte {error.start}") from error


def decode_topic(raw: bytes) -> str:
    """Return the topic that `raw` spells; errors are those of `check_topic`, and for bytes that are not UTF-8."""
    return check_topic(_decode(raw, "topic"))


def decode_prefix(raw: bytes) -> str:
    """Return the prefix that `raw` spells; errors are those of `check_prefix`, and for bytes that are not UTF-8."""
    return check_prefix(_decode(raw, "prefix"))


def decode_prefixes(raw: Sequence[bytes]) -> list[str]:
    """Return those that are prefixes, in order; the others are left out.

    All are checked together, and one by one only if something is wrong: a tenth of the time.
    """
    if not raw:
        return []
    try:
        text = _SEPARATOR.encode().join(raw).decode()
    except UnicodeDecodeError:
        return list(_decoded_singly(raw))
    prefixes = text.split(_SEPARATOR)
    is_sound = len(prefixes) == len(raw) and max(map(len, raw)) <= TOPIC_LIMIT_BYTES
    return prefixes if is_sound and _FORBIDDEN_BESIDE_IT.search(text) is None else list(_decoded_singly(raw))


def _decoded_singly(raw: Sequence[bytes]) -> Iterator[str]:
    for one in raw:
        with suppress(InvalidTopicError):
            yield decode_prefix(one)
