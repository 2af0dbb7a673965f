"""Grammar of service names and labels; and `Claim`: one handler's claim to one name.

A name is one of D-Bus's well-known names: two elements or more, joined by dots, such as `org.example.Player`; an
element has ASCII letters, digits, `_` and `-`, and begins with a letter or `_`. A label is 1 to 128 bytes of UTF-8
without control characters; labels stand sorted and without duplicates, so that equal sets are equal bytes on the wire.

Claims have an order that all hubs agree on: by time, then by the id of the hub where they were made. The first is the
owner.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from hub.errors import InvalidNameError
from hub.topics import printable

if TYPE_CHECKING:  # a client that speaks of names needs no core
    from hub.handlers.delivery import RemoteHub
    from hub.handlers.handler import Handler

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
            f"name {printable(name)} is not a valid name: expected two or more elements, such as"
            " org.example.Player, of letters, digits, _ and -, not beginning with a digit or -"
        )
    return name


def decode_name(raw: bytes) -> str:
    """Return the name that `raw` spells; errors are those of `check_name`."""
    return check_name(raw.decode("ascii", "backslashreplace"))


# Labels: short texts that a service name or a message bears; their grammar.


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


# Claims.

# The latest time of a claim that is taken; it leaves room above it, so that a later time still fits into 64 bits
LATEST_US = 2**62


class Standing(Enum):
    """State of a claim."""

    OWNED = "owned"
    QUEUED = "queued"  # Another client owns the name; this claim waits
    LOST = "lost"  # A peer hub had an earlier claim, or the name is no longer granted


class Change(NamedTuple):
    """A change of a claim, for its client."""

    name: str
    standing: Standing
    text: str = ""  # The cause, for people


Tell = Callable[[Change], object]


def untold(_: Change) -> None:
    """Stand in for a callback."""


class Wish(NamedTuple):
    """The name that a client asks for, and how."""

    name: str
    labels: Iterable[str] = ()  # Labels that are announced with the name
    queue: bool = False  # Whether the client waits if the name has an owner


class Announced(NamedTuple):
    """A name that a peer hub announces: one of its own clients owns it there."""

    name: str
    labels: tuple[str, ...]
    time_us: int
    owner: int


# Owner of a name, as far as this hub knows: a client, or its hub
Owner: TypeAlias = "Handler | RemoteHub"


class Claim(NamedTuple):
    """One claim of one client to one name, here or at another hub."""

    name: str
    handler: Owner
    labels: tuple[str, ...]  # Sorted, without duplicates
    time_us: int  # When it was made, µs since 1970 by the clock of its hub; later than any claim that its hub knew of
    hub: bytes  # Id of the hub where the claim was made
    owner: int  # Id of the client at that hub
    queue: bool = False  # Whether the claim waits while the name has another owner
    tell: Tell = untold

    @property
    def rank(self) -> tuple[int, bytes]:
        """Order of claims: the least owns the name."""
        return self.time_us, self.hub

    @property
    def announced(self) -> Announced:
        return Announced(self.name, self.labels, self.time_us, self.owner)

    @property
    def description(self) -> dict[str, Any]:
        """The entry of `$hub/names/` topics and lists."""
        return {"name": self.name, "labels": list(self.labels), "owner": self.owner, "hub": self.hub.hex()}

    def is_same_to_others(self, other: Claim | None) -> bool:
        """Return whether subscribers of `$hub/names/` see no difference between the two."""
        return other is not None and (self.labels, self.rank, self.owner) == (other.labels, other.rank, other.owner)

    def __str__(self) -> str:
        where = f" of peer hub {self.hub.hex()}" if self.handler.is_link else ""
        who = f" {self.handler.name!r}" if self.handler.name and not self.handler.is_link else ""
        return f"client {self.owner}{who}{where}"
