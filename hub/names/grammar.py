"""Service names and labels: what they may look like.

A name is one of D-Bus's well-known names: two elements or more, joined by dots, such as `org.example.Player`; an
element has ASCII letters, digits, `_` and `-`, and begins with a letter or `_`. A label is 1 to 128 bytes of UTF-8
without control characters; labels stand sorted and without duplicates, so that equal sets are equal bytes on the wire.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from hub.errors import InvalidNameError
from hub.topics import printable

NAME_LIMIT_BYTES = 255  # Longest name, bytes
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z_][A-Za-z0-9_-]*)+")


def check_name(name: str) -> str:
    """Return `name` if a client may claim it.

    Raises:
        InvalidNameError: It is too long, or does not follow the grammar.
    """
    if len(name) > NAME_LIMIT_BYTES:
        text = f"name {printable(name)} is {len(name)} characters long, the limit is {NAME_LIMIT_BYTES}"
        raise InvalidNameError(text)
    if _NAME.fullmatch(name) is None:
        raise InvalidNameError(
            f"name {printable(name)} is none: it takes two or more elements such as org.example.Player, of letters,"
            " digits, _ and -, none of which begins with a digit or -"
        )
    return name


def decode_name(raw: bytes) -> str:
    """Return the name that `raw` spells; errors are those of `check_name`."""
    return check_name(raw.decode("ascii", "backslashreplace"))


# Labels: short texts that a service name or a message bears; what they may look like.


LABELS_LIMIT = 32  # Most labels of one name, message or rule
LABEL_LIMIT_BYTES = 128  # Longest label, bytes of UTF-8: its length stands in one byte on the wire

# As in topics: a label ends up in terminals and logs, where these act. Surrogates cannot be encoded.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def check_label(label: str) -> str:
    """Return `label` if it is one.

    Raises:
        InvalidNameError: It is empty, too long or has control characters.
    """
    if not label:
        raise InvalidNameError(f"a label is empty, it must have 1 to {LABEL_LIMIT_BYTES} bytes")
    found = _FORBIDDEN.search(label)
    if found is not None:
        text = f"label {printable(label)} has the control character U+{ord(found[0]):04X} at character {found.start()}"
        raise InvalidNameError(text)
    size_bytes = len(label.encode())
    if size_bytes > LABEL_LIMIT_BYTES:
        text = f"label {printable(label)} is {size_bytes} bytes long, the limit is {LABEL_LIMIT_BYTES} bytes"
        raise InvalidNameError(text)
    return label


def check_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Return the labels sorted, each once.

    Raises:
        InvalidNameError: One of them is invalid, or they are too many.
    """
    checked = sorted(set(labels))
    together = "".join(checked)
    # All at once, and one by one only if something may be wrong with one: a fourth of the time.
    if (
        not (together.isascii() and together.isprintable() and all(checked))
        or max(map(len, checked), default=0) > LABEL_LIMIT_BYTES
    ):
        for label in checked:
            check_label(label)
    if len(checked) > LABELS_LIMIT:
        raise InvalidNameError(f"{len(checked)} labels, the limit is {LABELS_LIMIT}")
    return tuple(checked)
