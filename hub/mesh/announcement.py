"""What hubs tell each other of the mesh: `Announcement`, `Digest`, `Wanted`.

```
link comes up    ─▶ Digest: which hubs are known, and up to which announcement        ◀─ the same of the far side
                 ─▶ Announcement with base 0 of each hub of which the far side knows less: a full copy
something changed ─▶ Announcement from `base` to `seq`, on every link but the one that it came over
one was missed   ─▶ Wanted                                                             ◀─ a full copy
```

An announcement names how things stand at `seq`, for whatever has changed since `base`: not what was done to them. So it
fits whoever knows anything from `base` up to `seq`, and it does no harm to hear a part of it twice.

Owner: nobody; they are values. Not here: the bytes (`peers.wire.routing`), what follows from them (`hub.mesh.mesh`).
"""

from __future__ import annotations

from typing import NamedTuple

from hub.names.claim import Announced
from hub.origin import Origin
from hub.tags.rules import Rule

__all__ = ["SEQ_LIMIT", "Announcement", "Digest", "Interest", "Interests", "Leaf", "Served", "Told", "Wanted"]

SEQ_LIMIT = 2**32 - 1
"""The highest number of an announcement: one a second for 136 years."""


class Served(NamedTuple):
    """Requests under a prefix are answered at a hub."""

    prefix: str


class Leaf(NamedTuple):
    """A leaf is peered with a hub, and others may have it as well (`hub.leaves`)."""

    endpoint: bytes
    """Its id, 16 bytes."""
    since_us: int
    """Since when the hub has it, µs since 1970 by its own clock; later than what it knew that others had told."""


Interest = str | Rule | Served | Announced | Leaf
"""What a hub wants to be sent: messages under a prefix, those that a rule matches, requests, and what is for a name, or
for a leaf."""


class Interests(NamedTuple):
    """How what is wanted at a hub has changed; a `hub.filter.Change` is one of prefixes alone."""

    added: tuple[Interest, ...] = ()
    removed: tuple[Interest, ...] = ()


class Announcement(NamedTuple):
    """What has changed at one hub, told by itself and passed on by others."""

    hub: bytes
    """Its id, 16 bytes."""
    base: int
    """The number of the announcement that this one continues; 0 for none: this is all that there is to know."""
    seq: int
    """The number of this one, 1 to `SEQ_LIMIT`; none is given twice."""
    name: str = ""
    """What the hub calls itself, for people."""
    neighbours: tuple[tuple[bytes, int], ...] | None = None
    """The ids of all hubs that it is linked with, each with the cost of that link; None where nothing has changed."""
    added: tuple[Interest, ...] = ()
    """What is wanted there."""
    removed: tuple[Interest, ...] = ()
    """What is no longer wanted there."""
    left_out: int = 0
    """How much of what is wanted was left out as it came, since it was more than one hub may want; never told on."""
    is_whole: bool = True
    """Whether the speaker knows all prefixes and rules that are wanted there. If not, it tells none of them, and the
    hub is taken to want everything, until another hub tells all."""


class Digest(NamedTuple):
    """What the speaker knows: each hub with the number of the last announcement up to which it knows all of it."""

    known: tuple[tuple[bytes, int], ...]


class Wanted(NamedTuple):
    """The speaker has missed an announcement of a hub, and wants a full copy of what is known of it."""

    hub: bytes


Told = Announcement | Digest | Wanted | Origin
"""Whatever stands in a ROUTING frame; or an epoch of the far side itself that others have said, in an ORIGIN frame."""
