"""Commands as bytes: what is written can be read, and what cannot be read is refused with a reason."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given

from peers.values import Count, Set, encode
from peers.values.layout import Tag
from peers.zeek.broker.messages import EnvelopeType
from peers.zeek.broker.stores.command import (
    KIND_OFFSET,
    NIL_ENTITY,
    AckClone,
    Add,
    AttachWriter,
    Clear,
    Command,
    Content,
    CumulativeAck,
    Erase,
    Expire,
    InvalidCommandError,
    Keepalive,
    Nack,
    Put,
    PutUnique,
    PutUniqueResult,
    RetransmitFailed,
    Subtract,
    decode_command,
    encode_command,
    entity,
    node_of,
    object_of,
)
from tests.values.generated import mutations
from tests.zeek.broker.recorded import HIGH, LOW, connection
from tests.zeek.broker.stores.generated import COMMANDS

RECORDED = ("n05-data-store", "t01-clone-attach", "t02-clone-before-master")
ONE, OTHER = entity(LOW, 7), entity(HIGH, 8)
KEY, TEXT, NUMBER = encode("k"), encode("text"), encode(Count(5))


def recorded(name: str) -> list[bytes]:
    """All commands of a recording, of both sides."""
    return [each.payload for direction in connection(name).values() for each in direction.of_type(EnvelopeType.COMMAND)]


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_commands_are_written_as_they_were_read(name: str) -> None:
    """Every command of C++ Broker, taken apart and put together, is the same again."""
    commands = recorded(name)
    assert len(commands) > 20
    assert [encode_command(decode_command(each)) for each in commands] == commands


def test_what_was_recorded() -> None:
    """The recordings hold all that a master and a clone say while nothing is lost."""
    found = {type(decode_command(each).content) for name in RECORDED for each in recorded(name)}
    everything = {*Content.__args__}
    assert everything - found == {Subtract, RetransmitFailed}


def test_a_recorded_add() -> None:
    """Each field has its place."""
    add = next(each for each in map(decode_command, recorded("t01-clone-attach")) if isinstance(each.content, Add))
    assert add == Command(4, ONE, OTHER, Add(encode("n"), NUMBER, Tag.COUNT, None, ONE))


@given(COMMANDS)
def test_what_is_written_is_read(command: Command) -> None:
    """Of all kinds, with the same class."""
    read = decode_command(encode_command(command))
    assert read == command
    assert type(read.content) is type(command.content)


@given(COMMANDS)
def test_broken_commands_are_refused(command: Command) -> None:
    """Whatever is changed, there is one error for it, and what is read can be written."""
    sound = encode_command(command)
    for broken in mutations(sound, random.Random(1)):  # noqa: S311 -- nothing is kept secret
        with suppress(InvalidCommandError):
            read = decode_command(broken)
            assert decode_command(encode_command(read)) == read
    for end in range(len(sound)):
        with pytest.raises(InvalidCommandError):
            decode_command(sound[:end])
    with pytest.raises(InvalidCommandError, match="1 bytes follow"):
        decode_command(sound + b"\0")


HEADER = bytes(KIND_OFFSET)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "command of 0 bytes"),
        (HEADER, "command of 56 bytes, the shortest has more than 57"),
        (HEADER + b"\x0e" + NIL_ENTITY, "command of the unknown kind 14"),
        (HEADER + b"\x09" + bytes(7), "a field of 8 bytes is not complete at byte 57"),
        (HEADER + b"\x00" + KEY, "the value at byte 60 is not complete"),
        (HEADER + b"\x00" + KEY + b"\x0f", "15 at byte 60 is no type"),
        (HEADER + b"\x00" + KEY + TEXT + b"\x02", "02 at byte 66 is neither 0 nor 1"),
        (HEADER + b"\x02", "nothing at byte 57 is neither 0 nor 1"),
        (HEADER + b"\x05" + KEY + TEXT + b"\x0f", "0f at byte 66 is no type of a value"),
        (HEADER + b"\x0b" + b"\xff" * 9 + b"\x7f" + bytes(8), "are claimed at byte 57, 8 bytes are left"),
        (HEADER + b"\x0b" + b"\xff" * 11, "varbyte at byte 57 has no end"),
        (HEADER + b"\x0b\x02" + bytes(8), "2 are claimed at byte 57, 8 bytes are left"),
        (HEADER + b"\x0c" + bytes(10) + b"\x03" + KEY, "3 are claimed at byte 67, 3 bytes are left"),
        (HEADER + b"\x0c" + bytes(10) + b"\x02" + (KEY + TEXT) * 2, "two keys of the snapshot at byte 67"),
    ],
)
def test_refusals_say_what_is_wrong_where(data: bytes, text: str) -> None:
    """For people who read a log."""
    with pytest.raises(InvalidCommandError, match=text):
        decode_command(data)


def test_values_are_looked_over() -> None:
    """A set with two equal members is refused where it stands as a key."""
    sound = encode_command(Command(2, ONE, NIL_ENTITY, Erase(encode(Set([1, 2])), ONE)))
    broken = sound.replace(encode(2), encode(1))
    with pytest.raises(InvalidCommandError, match="are the same"):
        decode_command(broken)


@pytest.mark.parametrize(
    "content",
    [
        Put(KEY, TEXT, 5, ONE),
        PutUnique(KEY, TEXT, None, ONE, 3, OTHER),
        PutUniqueResult(True, ONE, 3, OTHER),
        Erase(KEY, ONE),
        Expire(KEY, ONE),
        Add(KEY, NUMBER, Tag.COUNT, -1, ONE),
        Subtract(KEY, NUMBER, None, ONE),
        Clear(ONE),
        AttachWriter(1, 5),
        Keepalive((1 << 64) - 1),
        CumulativeAck(0),
        Nack((0,)),
        AckClone(1, 5, ((KEY, TEXT), (TEXT, KEY))),
        RetransmitFailed(3),
    ],
    ids=lambda content: type(content).__name__,
)
def test_kinds(content: Content) -> None:
    """Each has its number in the order of Broker's."""
    written = encode_command(Command(0, ONE, OTHER, content))
    assert written[KIND_OFFSET] == Content.__args__.index(type(content))


def test_entities() -> None:
    """An entity is a node and a number in it."""
    assert (node_of(ONE), object_of(ONE)) == (LOW, 7)
    assert len(entity(LOW, (1 << 64) - 1)) == len(NIL_ENTITY)
