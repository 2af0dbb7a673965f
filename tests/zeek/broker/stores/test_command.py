"""Commands as bytes: what is written can be read, and what cannot be read is refused with a reason."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.settings.settings import ZeekSettings
from peers.values import Count, encode
from peers.values.binary import Tag
from peers.zeek.broker.messages import EnvelopeType
from peers.zeek.broker.stores import command as wire
from tests.values.recorded import VALUES, mutations
from tests.zeek.broker.recorded import HIGH, LOW, connection

_BODIES = VALUES.map(encode)
_ENTITIES = st.binary(min_size=24, max_size=24)
_NUMBERS = st.integers(0, (1 << 64) - 1)
_EXPIRIES = st.none() | st.integers(-(1 << 63), (1 << 63) - 1)
_TICKS = st.integers(0, (1 << 16) - 1)
_ENTRIES = st.dictionaries(_BODIES, _BODIES, max_size=5).map(lambda entries: tuple(entries.items()))

CONTENTS: st.SearchStrategy[wire.Content] = st.one_of(
    st.builds(wire.Put, _BODIES, _BODIES, _EXPIRIES, _ENTITIES),
    st.builds(wire.PutUnique, _BODIES, _BODIES, _EXPIRIES, _ENTITIES, _NUMBERS, _ENTITIES),
    st.builds(wire.PutUniqueResult, st.booleans(), _ENTITIES, _NUMBERS, _ENTITIES),
    st.builds(wire.Erase, _BODIES, _ENTITIES),
    st.builds(wire.Expire, _BODIES, _ENTITIES),
    st.builds(wire.Add, _BODIES, _BODIES, st.sampled_from(Tag), _EXPIRIES, _ENTITIES),
    st.builds(wire.Subtract, _BODIES, _BODIES, _EXPIRIES, _ENTITIES),
    st.builds(wire.Clear, _ENTITIES),
    st.builds(wire.AttachWriter, _NUMBERS, _TICKS),
    st.builds(wire.Keepalive, _NUMBERS),
    st.builds(wire.CumulativeAck, _NUMBERS),
    st.builds(wire.Nack, st.lists(_NUMBERS, max_size=200).map(tuple)),
    st.builds(wire.AckClone, _NUMBERS, _TICKS, _ENTRIES),
    st.builds(wire.RetransmitFailed, _NUMBERS),
)

COMMANDS: st.SearchStrategy[wire.Command] = st.builds(wire.Command, _NUMBERS, _ENTITIES, _ENTITIES, CONTENTS)


RECORDED = ("n05-data-store", "t01-clone-attach", "t02-clone-before-master")
ONE, OTHER = wire.entity(LOW, 7), wire.entity(HIGH, 8)
KEY, TEXT, NUMBER = encode("k"), encode("text"), encode(Count(5))


def recorded(name: str) -> list[bytes]:
    return [each.payload for direction in connection(name).values() for each in direction.of_type(EnvelopeType.COMMAND)]


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_commands_are_written_as_they_were_read(name: str) -> None:
    commands = recorded(name)
    assert len(commands) > 20
    assert [wire.encode_command(wire.decode_command(each)) for each in commands] == commands


def test_what_was_recorded() -> None:
    found = {type(wire.decode_command(each).content) for name in RECORDED for each in recorded(name)}
    everything = {*wire.Content.__args__}
    assert everything - found == {wire.Subtract, wire.RetransmitFailed}


@given(COMMANDS)
def test_what_is_written_is_read(command: wire.Command) -> None:
    read = wire.decode_command(wire.encode_command(command))
    assert read == command
    assert type(read.content) is type(command.content)


@given(COMMANDS)
def test_broken_commands_are_refused(command: wire.Command) -> None:
    sound = wire.encode_command(command)
    for broken in mutations(sound, random.Random(1)):  # noqa: S311 -- nothing is kept secret
        with suppress(wire.InvalidCommandError):
            read = wire.decode_command(broken)
            assert wire.decode_command(wire.encode_command(read)) == read
    for end in range(len(sound)):
        with pytest.raises(wire.InvalidCommandError):
            wire.decode_command(sound[:end])
    with pytest.raises(wire.InvalidCommandError, match="1 bytes follow"):
        wire.decode_command(sound + b"\0")


HEADER = bytes(wire.KIND_OFFSET)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "command of 0 bytes"),
        (HEADER, "command of 56 bytes, the shortest has more than 57"),
        (HEADER + b"\x0e" + wire.NIL_ENTITY, "command of the unknown kind 14"),
        (HEADER + b"\x09" + bytes(7), "a field of 8 bytes is not complete at byte 57"),
        (HEADER + b"\x00" + KEY, "the value at byte 60 is not complete"),
        (HEADER + b"\x00" + KEY + b"\x0f", "15 at byte 60 is no type"),
        (HEADER + b"\x00" + KEY + TEXT + b"\x02", "02 at byte 66 is neither 0 nor 1"),
        (HEADER + b"\x02", "nothing at byte 57 is neither 0 nor 1"),
        (HEADER + b"\x05" + KEY + TEXT + b"\x0f", "0f at byte 66 is no type of a value"),
        (HEADER + b"\x0b" + b"\xff" * 9 + b"\x7f" + bytes(8), "are claimed at byte 57, 8 bytes are left"),
        (HEADER + b"\x0b" + b"\xff" * 11, "the length at byte 57 takes more than 10 bytes"),
        (HEADER + b"\x0b\x02" + bytes(8), "2 are claimed at byte 57, 8 bytes are left"),
        (HEADER + b"\x0c" + bytes(10) + b"\x03" + KEY, "3 are claimed at byte 67, 3 bytes are left"),
        (HEADER + b"\x0c" + bytes(10) + b"\x02" + (KEY + TEXT) * 2, "two keys of the snapshot at byte 67"),
    ],
)
def test_refusals_say_what_is_wrong_where(data: bytes, text: str) -> None:
    with pytest.raises(wire.InvalidCommandError, match=text):
        wire.decode_command(data)


def test_kinds_have_the_numbers_of_broker() -> None:
    assert [wire.KINDS[kind] for kind in wire.Content.__args__] == list(range(14))


def test_entities() -> None:
    assert (wire.node_of(ONE), wire.object_of(ONE)) == (LOW, 7)
    assert len(wire.entity(LOW, (1 << 64) - 1)) == len(wire.NIL_ENTITY)


# Topics of data stores, and what a hub must not ask Zeeks for, so that they can attach theirs.


@pytest.mark.parametrize(
    ("is_covering", "prefixes"),
    [
        (True, ["", "<", "<$>", "<$>/local/", "z", "zeek/", "zeek/known/", "zeek/known/hosts", "___"]),
        (True, ["d", "db", "db/<$>/data/master"]),
        (False, ["/", "/zeek/", "zeek/cluster/", "zeek/knows", "da", "$", "a<"]),
    ],
)
def test_prefixes_that_cover_a_store(is_covering: bool, prefixes: list[str]) -> None:  # noqa: FBT001 -- a parameter
    for prefix in prefixes:
        assert wire.covers_stores(prefix, [*ZeekSettings().stores, "db"]) == is_covering, prefix


def test_the_topics_of_a_store() -> None:
    assert (wire.master_topic("db"), wire.clone_topic("db")) == ("db/<$>/data/master", "db/<$>/data/clone")
    assert wire.master_topic("zeek/known/") == "zeek/known/<$>/data/master"
    assert wire.store_of("a/b/<$>/data/master") == ("a/b", True)
    assert wire.store_of(wire.clone_topic("db")) == ("db", False)
    assert wire.store_of("db/<$>/data/other") is None
    assert wire.is_store_topic(wire.clone_topic("db"))
    assert not wire.is_store_topic("db")
    assert all(wire.announces_master([prefix, "x"], "db") for prefix in ("", "d", "db", "db/<$>/data/master"))
    assert not wire.announces_master([wire.clone_topic("db"), "dc"], "db")
