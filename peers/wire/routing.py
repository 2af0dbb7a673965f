"""ROUTING: announcements of the mesh, in parts that fit into the far side's frames.

| body, a msgpack array | |
|---|---|
| `[1, [[hub, seq], ...]]` | `Digest`: the hubs that the sender knows, each with its latest announcement |
| `[2, hub]` | `Wanted`: asks for a full copy of the announcements of that hub |
| `[3, hub, base, seq, part, last, name, neighbours, added, removed]` | `AnnouncementPart`: of an `Announcement` |
| `[7, (the same)]` | `IncompletePart`: of an announcement without prefixes and rules, not all of which are known |

The parts of an announcement have the same hub, base and seq, and count up from 0. Parts about other hubs may come
between them. A newer announcement of the same hub replaces one that is not complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Annotated, NamedTuple, cast

import msgspec

from hub.errors import CloseCode, InvalidNameError, InvalidTopicError, RejectedError
from hub.labels.rules import Rule, check_rule
from hub.mesh.announcement import SEQ_LIMIT, Announcement, Digest, Interest, Leaf, Served, Told, Wanted, is_topic
from hub.messages.frame import encode_frame
from hub.names.claim import LABELS_LIMIT, LATEST_US, Announced, check_labels, check_name
from hub.topics import RESERVED, check_prefix, printable
from peers.wire.control import MALFORMED
from peers.wire.hello import ID_BYTES, NAME_LIMIT_BYTES, HubId
from peers.wire.kinds import Kind

ENTRIES_PER_PART = 1_000  # most neighbours, prefixes and rules together in one part
HUBS_LIMIT = 10_000  # most hubs in one digest, 240 KB: more than a hub knows by default
_HUB_BYTES = 24  # most bytes of an id with its number: 1 for the array, 18 for the id, 5 for the number
_BESIDE_BYTES = 3  # most bytes of a text beside its characters
_NUMBER_BYTES = 9  # most bytes of a number
_ENDPOINT = re.compile("[0-9a-f]{32}")  # the id of a leaf, which has as many bytes as that of a hub
_AROUND_BYTES = 128  # most bytes of a body beside its lists

_FromZero = Annotated[int, msgspec.Meta(ge=0, le=SEQ_LIMIT)]
_FromOne = Annotated[int, msgspec.Meta(ge=1, le=SEQ_LIMIT)]
_Hubs = tuple[tuple[HubId, _FromOne], ...]
_Fields = tuple[str | int | Annotated[tuple[str, ...], msgspec.Meta(max_length=LABELS_LIMIT)], ...]
_Raw = tuple[str | _Fields, ...]
_Interests = Annotated[_Raw, msgspec.Meta(max_length=ENTRIES_PER_PART)]
"""Prefixes; rules, `[[label, ...], prefix, sender]`; prefixes that are served, `[prefix]`; names that clients own,
`[name, [label, ...], time, owner]`, as in NAMES; and leaves, `[time, endpoint]`, the id as 32 hexadecimal digits."""


class _Digest(msgspec.Struct, frozen=True, array_like=True, tag=1, forbid_unknown_fields=True):
    known: Annotated[_Hubs, msgspec.Meta(max_length=HUBS_LIMIT)]


class _Wanted(msgspec.Struct, frozen=True, array_like=True, tag=2, forbid_unknown_fields=True):
    hub: HubId


class AnnouncementPart(msgspec.Struct, frozen=True, array_like=True, tag=3, forbid_unknown_fields=True):
    """A part of an announcement, or all of it."""

    hub: HubId
    base: _FromZero
    seq: _FromOne
    part: _FromZero  # the number of the part, from 0
    last: bool  # whether this is the last part
    name: str  # the name of the hub; empty in all parts but the first
    neighbours: Annotated[_Hubs, msgspec.Meta(max_length=ENTRIES_PER_PART)] | None
    """Some of the neighbours with the costs; None in all parts if they have not changed."""
    added: _Interests
    removed: _Interests

    @property
    def entries(self) -> int:
        return len(self.neighbours or ()) + len(self.added) + len(self.removed)


class IncompletePart(AnnouncementPart, frozen=True, array_like=True, tag=7, forbid_unknown_fields=True):
    """A part of an announcement without prefixes and rules, which the sender does not know in full."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Digest | _Wanted | AnnouncementPart | IncompletePart).decode


def encode_routing(item: Told, limit_bytes: int) -> Iterator[bytes]:
    """Yield the frames of an item, with bodies of at most `limit_bytes`; a single entry may be larger."""
    match item:
        case Announcement():
            for part in _parts(item, limit_bytes):
                yield encode_frame(Kind.ROUTING, _encode(part))
        case Digest():
            # The far side sends a copy of each hub that is left out, which does no harm.
            fitting = min(HUBS_LIMIT, max(1, (limit_bytes - _AROUND_BYTES) // _HUB_BYTES))
            yield encode_frame(Kind.ROUTING, _encode(_Digest(item.known[:fitting])))
        case Wanted():
            yield encode_frame(Kind.ROUTING, _encode(_Wanted(item.hub)))


class _Lists(NamedTuple):
    neighbours: list[tuple[bytes, int]]
    added: list[Interest]
    removed: list[Interest]


def _parts(announcement: Announcement, limit_bytes: int) -> Iterator[AnnouncementPart]:
    hub, base, seq, name, neighbours, *_ = announcement
    cut = _cut(announcement, limit_bytes)
    lists: _Lists | None = next(cut)
    for part in count():
        if lists is None:
            return
        following = next(cut, None)
        made = AnnouncementPart if announcement.is_whole else IncompletePart
        yield made(
            hub,
            base,
            seq,
            part,
            last=following is None,
            name="" if part else name,
            neighbours=None if neighbours is None else tuple(lists.neighbours),
            added=tuple(map(_as_told, lists.added)),
            removed=tuple(map(_as_told, lists.removed)),
        )
        lists = following


def _as_told(interest: Interest) -> str | _Fields:
    if isinstance(interest, Leaf):
        return interest.since_us, interest.endpoint.hex()
    return cast("str | _Fields", interest)


def _cut(announcement: Announcement, limit_bytes: int) -> Iterator[_Lists]:
    lists = _Lists([], [], [])
    entries, size_bytes = 0, _AROUND_BYTES
    for entry, entry_bytes, where in _entries(announcement):
        if entries and (entries == ENTRIES_PER_PART or size_bytes + entry_bytes > limit_bytes):
            yield lists
            lists = _Lists([], [], [])
            entries, size_bytes = 0, _AROUND_BYTES
        lists[where].append(entry)  # type: ignore[arg-type]
        entries += 1
        size_bytes += entry_bytes
    yield lists


def _entries(announcement: Announcement) -> Iterator[tuple[tuple[bytes, int] | Interest, int, int]]:
    """Yield each entry with its most bytes, and the index of its list."""
    for neighbour in announcement.neighbours or ():
        yield neighbour, _HUB_BYTES, 0
    for where, interests in ((1, announcement.added), (2, announcement.removed)):
        for one in interests:
            yield one, _size_bytes(one), where


def _size_bytes(interest: Interest) -> int:
    if isinstance(interest, str):
        return len(interest.encode()) + _BESIDE_BYTES
    if isinstance(interest, Served):
        return len(interest.prefix.encode()) + 2 * _BESIDE_BYTES
    if isinstance(interest, Leaf):
        return 2 * _BESIDE_BYTES + _NUMBER_BYTES + 2 * ID_BYTES
    if isinstance(interest, Announced):
        texts: tuple[str, ...] = (*interest.labels, interest.name)
        return _BESIDE_BYTES * (2 + len(texts)) + 2 * _NUMBER_BYTES + sum(len(text.encode()) for text in texts)
    texts = (*interest.labels, interest.prefix, interest.sender)
    return _BESIDE_BYTES * (2 + len(texts)) + sum(len(text.encode()) for text in texts)


def decode_routing(body: bytes) -> AnnouncementPart | Digest | Wanted:
    item: _Digest | _Wanted | AnnouncementPart
    try:
        item = _decode(body)
    except MALFORMED as error:
        raise _refusal(str(error)) from error
    if isinstance(item, AnnouncementPart):
        _check(item)
        return msgspec.structs.replace(item, added=_interests(item.added), removed=_interests(item.removed))
    return Digest(item.known) if isinstance(item, _Digest) else Wanted(item.hub)


def _check(part: AnnouncementPart) -> None:
    if part.base >= part.seq:
        raise _refusal(f"an announcement that leads from {part.base} to {part.seq}")
    if len(part.name.encode("utf-8", "replace")) > NAME_LIMIT_BYTES:
        raise _refusal(f"a name is over {NAME_LIMIT_BYTES} bytes")
    if part.entries > ENTRIES_PER_PART:
        raise _refusal(f"{part.entries} neighbours, prefixes and rules in one part, the limit is {ENTRIES_PER_PART}")
    if not (part.last or part.entries):
        raise _refusal("a part that holds nothing, and is not the last one")


def _interests(told: Iterable[str | _Fields]) -> tuple[Interest, ...]:
    interests: list[Interest] = []
    for one in told:
        try:
            interest = check_prefix(one) if isinstance(one, str) else _of_fields(one)
        except (InvalidTopicError, InvalidNameError) as error:
            raise _refusal(str(error)) from error
        prefix = interest if isinstance(interest, str) else getattr(interest, "prefix", "")
        if prefix.startswith(RESERVED):
            text = f"ROUTING: prefix {printable(prefix)} is of a hub's own topics, which cross no link"
            raise RejectedError(CloseCode.NOT_ALLOWED, text)
        interests.append(interest)
    return tuple(interests)


def _of_fields(fields: _Fields) -> Rule | Served | Announced | Leaf:
    match fields:
        case (str() as prefix,):
            return Served(check_prefix(prefix))
        case (tuple() as labels, str() as prefix, str() as sender):
            return check_rule(labels, prefix, sender)
        case (str() as name, tuple() as labels, int() as time_us, int() as owner):
            if not (0 <= time_us <= LATEST_US and 0 <= owner <= LATEST_US):
                raise _refusal(f"name {printable(name)}: a time or an owner that cannot be")
            return Announced(check_name(name), check_labels(labels), time_us, owner)
        case (int() as since_us, str() as endpoint):
            return _leaf(since_us, endpoint)
    raise _refusal("an array that is neither a rule, nor a prefix that is served, nor a name, nor a leaf")


def _leaf(since_us: int, endpoint: str) -> Leaf:
    if not (0 <= since_us <= LATEST_US and _ENDPOINT.fullmatch(endpoint)):
        raise _refusal(f"leaf {printable(endpoint[: 2 * ID_BYTES])}: an id or a time that cannot be")
    return Leaf(bytes.fromhex(endpoint), since_us)


def _refusal(text: str) -> RejectedError:
    return RejectedError(CloseCode.BAD_DATA, f"ROUTING: {text}")


class _Begun:
    """An incomplete announcement."""

    __slots__ = ("_added", "_first", "_left_out", "_neighbours", "_parts", "_removed")

    def __init__(self, first: AnnouncementPart) -> None:
        self._first = first
        self._neighbours: list[tuple[bytes, int]] = []
        self._added: list[Interest] = []
        self._removed: list[Interest] = []
        self._parts = 0
        self._left_out = 0  # prefixes and rules

    @property
    def entries(self) -> int:
        return len(self._neighbours) + len(self._added) + len(self._removed)

    def continues(self, part: AnnouncementPart) -> bool:
        has_neighbours = part.neighbours is not None
        is_like_first = _key(part) == _key(self._first) and has_neighbours == (self._first.neighbours is not None)
        return is_like_first and _is_whole(part) == _is_whole(self._first) and part.part == self._parts

    def take(self, part: AnnouncementPart, prefixes_limit: int) -> None:
        """Add the next part; of too many prefixes and rules all are left out."""
        self._neighbours += part.neighbours or ()
        self._removed += cast("tuple[Interest, ...]", part.removed)  # checked, as decoded
        self._parts += 1
        added = cast("tuple[Interest, ...]", part.added)
        entries = len(self._added) + len(added)
        if self._left_out or entries > prefixes_limit:
            self._added = [one for one in (*self._added, *added) if not is_topic(one)][:prefixes_limit]
            self._left_out += entries - len(self._added)
        else:
            self._added += added

    def announcement(self) -> Announcement:
        hub, base, seq, name = self._first.hub, self._first.base, self._first.seq, self._first.name
        neighbours = None if self._first.neighbours is None else tuple(self._neighbours)
        added, removed, is_whole = tuple(self._added), tuple(self._removed), _is_whole(self._first)
        return Announcement(hub, base, seq, name, neighbours, added, removed, self._left_out, is_whole)


class Assembly:
    """Joins the parts of announcements that arrive over one link.

    Args:
        prefixes_limit: Most prefixes and rules of one announcement. One with more has none of them, and says how many
            were left out.
    """

    __slots__ = ("_begun", "_entries_limit", "_passed_over", "_prefixes_limit", "entries")

    def __init__(self, prefixes_limit: int) -> None:
        self._prefixes_limit = prefixes_limit
        # Enough for a hub that replaces all its interests at once.
        self._entries_limit = 2 * prefixes_limit + HUBS_LIMIT
        # The announcements that are not complete, by hub; each holds at least one entry, so there are not too many.
        self._begun: dict[bytes, _Begun] = {}
        # The announcement that was refused last: its further parts are ignored.
        self._passed_over: tuple[bytes, int, int] | None = None
        self.entries = 0  # number of neighbours, prefixes and rules in incomplete announcements

    def add(self, part: AnnouncementPart) -> Announcement | None:
        """Add a part; return the announcement if it is complete, otherwise None.

        Raises:
            RejectedError: Parts before this one are missing, or too much would be held. The announcement is dropped,
                and its further parts are ignored.
        """
        begun = self._begun.pop(part.hub, None)
        if begun is not None:
            self.entries -= begun.entries
        if part.part == 0:
            begun = _Begun(part)
        elif begun is None or not begun.continues(part):
            if self._passed_over == _key(part):
                return None
            raise self._refuse(part, CloseCode.BAD_DATA, f"part {part.part} does not continue the part before")
        begun.take(part, self._prefixes_limit)
        if self.entries + begun.entries > self._entries_limit:
            text = f"over {self._entries_limit} neighbours, prefixes and rules in announcements that are not complete"
            raise self._refuse(part, CloseCode.NOT_ALLOWED, text)
        if part.last:
            return begun.announcement()
        self._begun[part.hub] = begun
        self.entries += begun.entries
        return None

    def _refuse(self, part: AnnouncementPart, code: int, text: str) -> RejectedError:
        self._passed_over = _key(part)
        return RejectedError(code, f"ROUTING: announcement {part.seq} of hub {part.hub.hex()}: {text}")


def _is_whole(part: AnnouncementPart) -> bool:
    return not isinstance(part, IncompletePart)


def _key(part: AnnouncementPart) -> tuple[bytes, int, int]:
    return part.hub, part.base, part.seq
