"""The body of ROUTING: what is told is what is heard, in however many parts; and what is refused."""

from __future__ import annotations

from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode, RejectedError
from hub.labels.rules import check_rule
from hub.mesh.announcement import Announcement, Digest, Leaf, Served, Wanted
from hub.messages.frame import encode_frame
from hub.names.claim import Announced
from peers.wire.control import Notice, decode_notice
from peers.wire.kinds import Kind
from peers.wire.routing import ENTRIES_PER_PART, HUBS_LIMIT, AnnouncementPart, Assembly, decode_routing, encode_routing
from tests.wire.pair import HUB_HELLO, frames_of, side_of

SMALLEST_FRAME_BYTES = 4096  # the least that a hub can be set to take

HUB, OTHER = b"h" * 16, b"o" * 16

numbers = st.integers(1, 2**32 - 1)
ids = st.binary(min_size=16, max_size=16)
hubs = st.lists(st.tuples(ids, numbers), max_size=5).map(tuple)
_RULES = [check_rule(["a"]), check_rule(["b", "ä" * 64], "/x"), check_rule([], "", "org.example.Door")]
_PREFIXES = ["", "/a", "/ä/€", "x" * 1024, "ä" * 512]
_NAMES = [Announced("org.example.A", (), 0, 1), Announced("org.example.B", ("x", "ä" * 64), 2**62, 2**40)]
_LEAVES = [Leaf(b"leaf" * 4, 0), Leaf(b"\xff" * 16, 2**62)]
interests = st.lists(
    st.sampled_from([*_PREFIXES, *_RULES, Served(""), Served("/ä"), *_NAMES, *_LEAVES]), max_size=9
).map(tuple)
announcements = st.builds(
    lambda seqs, **fields: Announcement(base=min(seqs), seq=max(seqs), **fields),
    st.sets(st.integers(0, 2**32 - 1), min_size=2, max_size=2),
    hub=ids,
    name=st.sampled_from(["", "edge", "ü" * 32]),
    neighbours=st.none() | hubs,
    added=interests,
    removed=interests,
    is_whole=st.booleans(),
)


def bodies(item: Announcement | Digest | Wanted, limit_bytes: int = 1 << 24) -> list[bytes]:
    frames = frames_of(b"".join(encode_routing(item, limit_bytes)))
    assert {frame.kind for frame in frames} == {Kind.ROUTING}
    return [frame.body for frame in frames]


def parts_of(announcement: Announcement, limit_bytes: int = 1 << 24) -> list[AnnouncementPart]:
    heard = [decode_routing(body) for body in bodies(announcement, limit_bytes)]
    return [part for part in heard if isinstance(part, AnnouncementPart)]


def numbered(count: int) -> tuple[str, ...]:
    return tuple(f"/{number}" for number in range(count))


def large(count: int, hub: bytes = HUB, seq: int = 7) -> Announcement:
    return Announcement(hub, 0, seq, "edge", ((OTHER, 1),), numbered(count), ())


@given(announcements, st.integers(SMALLEST_FRAME_BYTES, 30_000))
def test_out_and_back(announcement: Announcement, limit_bytes: int) -> None:
    assembly = Assembly(1000)
    said = bodies(announcement, limit_bytes)
    assert max(map(len, said)) <= limit_bytes
    heard = [assembly.add(part) for part in parts_of(announcement, limit_bytes)]
    assert heard == [None] * (len(said) - 1) + [announcement]
    assert assembly.entries == 0


def test_the_largest_parts_fit() -> None:
    top = 2**32 - 1
    neighbours = tuple((number.to_bytes(16, "big"), top) for number in range(700))
    said = Announcement(HUB, top - 1, top, "ü" * 32, neighbours, ("x" * 1024,) * 20, ("ä" * 512,) * 20)
    for limit_bytes in range(SMALLEST_FRAME_BYTES, SMALLEST_FRAME_BYTES + 50):
        assert max(map(len, bodies(said, limit_bytes))) <= limit_bytes


@pytest.mark.parametrize("count", [ENTRIES_PER_PART - 1, ENTRIES_PER_PART, 3 * ENTRIES_PER_PART + 7])
def test_a_part_is_a_turns_work(count: int) -> None:
    said = large(count)
    parts = parts_of(said)
    assert [part.entries for part in parts[:-1]] == [ENTRIES_PER_PART] * (len(parts) - 1)
    assert sum(part.entries for part in parts) == count + 1
    assert [part.part for part in parts] == list(range(len(parts)))
    assert [part.last for part in parts] == [False] * (len(parts) - 1) + [True]
    assert [part.name for part in parts] == ["edge"] + [""] * (len(parts) - 1)
    assembly = Assembly(100_000)
    assert [assembly.add(part) for part in parts][-1] == said


def test_a_digest_that_does_not_fit() -> None:
    known = tuple((number.to_bytes(16, "big"), 2**32 - 1) for number in range(HUBS_LIMIT + 1))
    (body,) = bodies(Digest(known))
    assert decode_routing(body) == Digest(known[:HUBS_LIMIT])
    (body,) = bodies(Digest(known), SMALLEST_FRAME_BYTES)
    assert len(body) <= SMALLEST_FRAME_BYTES
    heard = decode_routing(body)
    assert isinstance(heard, Digest)
    assert 0 < len(heard.known) < 200
    assert heard.known == known[: len(heard.known)]


# What is refused.


def array(**changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "tag": 3,
        "hub": HUB,
        "base": 0,
        "seq": 1,
        "part": 0,
        "last": True,
        "name": "n",
        "neighbours": None,
        "added": [],
        "removed": [],
    }
    packed: bytes = msgpack.packb(list((fields | changes).values()))
    return packed


BAD = {
    "nothing": (b"", ""),
    "an unknown number": (msgpack.packb([8, HUB]), "8"),
    "a digest of short ids": (msgpack.packb([1, [[HUB[:15], 1]]]), "16"),
    "a digest of seq 0": (msgpack.packb([1, [[HUB, 0]]]), ">= 1"),
    "a digest of too high a seq": (msgpack.packb([1, [[HUB, 2**32]]]), "<= 4294967295"),
    "a digest of too many": (msgpack.packb([1, [[HUB, 1]] * (HUBS_LIMIT + 1)]), "10000"),
    "wanted of a short id": (msgpack.packb([2, b"x"]), "16"),
    "seq 0": (array(seq=0), ">= 1"),
    "too high a seq": (array(seq=2**32), "<= 4294967295"),
    "a base below 0": (array(base=-1), ">= 0"),
    "a base of seq": (array(base=1), "an announcement that leads from 1 to 1"),
    "a part below 0": (array(part=-1), ">= 0"),
    "a long name": (array(name="ü" * 33), "a name is over 64 bytes"),
    "a neighbour with a short id": (array(neighbours=[[b"x", 1]]), "16"),
    "a cost of 0": (array(neighbours=[[OTHER, 0]]), ">= 1"),
    "too high a cost": (array(neighbours=[[OTHER, 2**32]]), "<= 4294967295"),
    "too many neighbours": (array(neighbours=[[OTHER, 1]] * (ENTRIES_PER_PART + 1)), "1000"),
    "too many prefixes": (array(added=["/a"] * (ENTRIES_PER_PART + 1)), "1000"),
    "too many altogether": (array(added=["/a"] * 600, removed=["/b"] * 401), "1001 neighbours, prefixes and rules"),
    "a control character": (array(added=["/a", "/\n"]), "has the control character U+000A"),
    "a rule of nothing": (array(added=[[[], "", ""]]), "a rule has a label or a sender"),
    "a rule with a bad label": (array(added=[[["\n"], "", ""]]), "U+000A"),
    "a rule with a bad prefix": (array(removed=[[["a"], "/\n", ""]]), "U+000A"),
    "a rule without a sender": (array(added=[[["a"], ""]]), "neither a rule"),
    "a served prefix that is none": (array(added=[["/\n"]]), "U+000A"),
    "a name that is none": (array(added=[["none", [], 1, 1]]), "none"),
    "a name with a bad label": (array(added=[["a.b", ["\n"], 1, 1]]), "U+000A"),
    "a name of no time": (array(removed=[["a.b", [], -1, 1]]), "a time or an owner"),
    "a name without an owner": (array(added=[["a.b", [], 1]]), "neither a rule"),
    "a leaf of no time": (array(added=[[-1, "0" * 32]]), "leaf '0000"),
    "a leaf of too late a time": (array(removed=[[2**62 + 1, "0" * 32]]), "an id or a time that cannot be"),
    "a leaf with a short id": (array(added=[[1, "00"]]), "an id or a time"),
    "a leaf with a long id": (array(added=[[1, "0" * 34]]), "an id or a time"),
    "a leaf with an id that is none": (array(added=[[1, "\nG" * 16]]), "leaf '"),
    "an array of nothing": (array(removed=[[]]), "neither a rule"),
    "a served list": (array(added=[[["a"]]]), "neither a rule"),
    "a rule with too many labels": (array(added=[[[f"l{number}" for number in range(33)], "", ""]]), "32"),
    "a long prefix": (array(added=["ä" * 513]), "is 1026 bytes long"),
    "a part of nothing": (array(last=False), "a part that holds nothing"),
    "nested deep": (msgpack.packb([3])[:-1] + b"\x91" * 60_000, ""),
}
BAD["a prefix that is not UTF-8"] = (array(added=["?"]).replace(b"\xa1?", b"\xa1\xff"), "")


@pytest.mark.parametrize(("body", "cause"), BAD.values(), ids=BAD.keys())
def test_what_is_no_such_array(body: bytes, cause: str) -> None:
    with pytest.raises(RejectedError, match=r"^ROUTING: .") as refused:
        decode_routing(body)
    assert refused.value.code == CloseCode.BAD_DATA
    assert cause in refused.value.text
    side = side_of("hub")
    side.hear(HUB_HELLO.encode())
    side.hear(encode_frame(Kind.ROUTING, body))
    assert len(side.events) == 1
    assert not side.session.closed
    (frame,) = frames_of(side.session.take_outgoing())
    assert decode_notice(frame.body) == Notice("error", code=CloseCode.BAD_DATA, text=refused.value.text)


@pytest.mark.parametrize("prefix", ["$hub/", "$hub/client/"])
def test_the_hubs_own_topics(prefix: str) -> None:
    for said in (
        array(added=["/a", prefix]),
        array(removed=[prefix]),
        array(added=[[["a"], prefix, ""]]),
        array(added=[[prefix]]),
    ):
        with pytest.raises(RejectedError, match=r"ROUTING: prefix '\$hub/.*cross no link") as refused:
            decode_routing(said)
        assert refused.value.code == CloseCode.NOT_ALLOWED


# Parts.


def test_a_newer_announcement_takes_the_place() -> None:
    old, new = parts_of(large(3000)), parts_of(large(1500, seq=8))
    assembly = Assembly(100_000)
    assert assembly.add(old[0]) is None
    assert assembly.add(new[0]) is None
    assert assembly.entries == new[0].entries
    assert assembly.add(new[1]) == large(1500, seq=8)
    with pytest.raises(RejectedError, match="does not continue"):
        assembly.add(old[1])
    assert [assembly.add(part) for part in old[2:]] == [None] * len(old[2:])
    assert assembly.entries == 0


def test_parts_about_several_hubs() -> None:
    assembly = Assembly(100_000)
    ours, others = large(2500), large(2700, OTHER)
    heard = [assembly.add(part) for pair in zip(parts_of(ours), parts_of(others), strict=True) for part in pair]
    assert [one for one in heard if one is not None] == [ours, others]
    assert assembly.entries == 0


@pytest.mark.parametrize("missing", [0, 1])
def test_a_part_is_missing(missing: int) -> None:
    parts = parts_of(large(3500))
    del parts[missing]
    assembly = Assembly(100_000)
    heard = []
    refused = []
    for part in parts:
        try:
            heard.append(assembly.add(part))
        except RejectedError as error:
            refused.append(error)
    assert set(heard) == {None}
    (error,) = refused
    assert error.code == CloseCode.BAD_DATA
    text = f"ROUTING: announcement 7 of hub {HUB.hex()}: part {missing + 1} does not continue the part before"
    assert error.text == text
    assert assembly.entries == 0
    assert [assembly.add(part) for part in parts_of(large(3500))][-1] == large(3500)


@pytest.mark.parametrize("neighbours", [None, ()])
def test_neighbours_are_in_all_parts_or_in_none(neighbours: tuple[()] | None) -> None:
    first, second = parts_of(Announcement(HUB, 0, 1, "", neighbours, numbered(1500), ()))
    other = () if neighbours is None else None
    assembly = Assembly(100_000)
    assembly.add(first)
    with pytest.raises(RejectedError, match="does not continue"):
        assembly.add(msgspec.structs.replace(second, neighbours=other))


@pytest.mark.parametrize("limit", [1, 1500, 2000])
def test_a_hub_that_wants_too_much(limit: int) -> None:
    assembly = Assembly(limit)
    said = large(5000)._replace(added=(Served("/s"), *numbered(4999)))
    for _ in range(2):
        *_, heard = [assembly.add(part) for part in parts_of(said)]
        assert heard == said._replace(added=(Served("/s"),), left_out=4999)
    assert assembly.entries == 0


def test_what_is_held_is_bounded() -> None:
    limit = 1000
    most = 2 * limit + HUBS_LIMIT
    assembly = Assembly(limit)
    begun = [
        next(iter(parts_of(Announcement(number.to_bytes(16, "big"), 0, 1, "", None, (), numbered(1001)))))
        for number in range(most // ENTRIES_PER_PART)
    ]
    for part in begun:
        assembly.add(part)
    assert assembly.entries == most
    with pytest.raises(RejectedError, match=f"over {most} neighbours, prefixes and rules") as refused:
        assembly.add(parts_of(large(1500))[0])
    assert refused.value.code == CloseCode.NOT_ALLOWED
    assert assembly.add(parts_of(large(1500))[1]) is None
    assert assembly.entries == most
    last = msgspec.structs.replace(begun[0], part=1, last=True, removed=())
    assert assembly.add(last) == Announcement(begun[0].hub, 0, 1, "", None, (), numbered(1000))
    assert assembly.entries == most - ENTRIES_PER_PART
    assert [assembly.add(part) for part in parts_of(large(900))] == [large(900)]
