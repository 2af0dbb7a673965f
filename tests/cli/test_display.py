"""How messages are shown, events of Zeek among them, and what a command says beside them."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from hub.errors import RejectedError, UsageError
from hub.journal.message import RecordedMessage
from hub.labels.envelope import TaggedMessage, tagged
from hub.limits import Overflow
from hub.messages.batch import Message
from peers.cli.contexts import HubFlags
from peers.cli.notices import Notices
from peers.cli.sub import JsonFormat, PrettyFormat
from peers.cli.texts import cut, escaped
from peers.cli.zeek_values import event_of
from peers.client import BadMessage
from peers.values import Count, Enum, Port, Table, Timestamp
from peers.values.event import Event
from peers.wire.hello import Hello, QueueWish

AT = datetime(2018, 3, 24, 17, 15, 20, 600725, tzinfo=UTC)
EXTENSION = msgspec.msgpack.Ext(5, b"x")


def pretty(*messages: Message, width: int | None = None, colour: bool = False) -> str:
    return PrettyFormat(colour=colour).render(messages, AT, width).decode()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"\x00\x01", '"AAE="'),
        (AT, '"2018-03-24T17:15:20.600725Z"'),
        (math.nan, "null"),
        (2**64 - 1, "18446744073709551615"),
        ({1: "a", 1.5: "b"}, '{"1":"a","1.5":"b"}'),
        ({True: 1}, '{"true":1}'),
    ],
)
def test_values_become_json_as_on_the_websocket(value: Any, text: str) -> None:
    assert JsonFormat().render([Message("/a", value)]).decode() == f'{{"topic":"/a","value":{text}}}\n'
    assert pretty(Message("/a", value)) == f"17:15:20.600 /a {text}\n"


def test_strings_that_are_no_utf8() -> None:
    raw = "\udcff\udcfe raw"
    values = [{"host": raw, "id": {"p": [raw, Port(53, "udp")]}, raw: 1}, raw, (raw, "é"), {1: raw}]
    messages = [TaggedMessage(tagged("/a", ["low"]), value) for value in values]
    form = JsonFormat()
    lines = [json.loads(line) for line in form.render(messages).splitlines()]
    shown = "\\xff\\xfe raw"
    written = [{"host": shown, "id": {"p": [shown, "53/udp"]}, shown: 1}, shown, [shown, "é"], {"1": shown}]
    assert lines == [{"topic": "/a", "value": value, "labels": ["low"]} for value in written]
    assert form.formless_messages == 0
    assert pretty(Message("/a", raw)).endswith('/a "\\\\xff\\\\xfe raw"\n')


def test_what_has_no_json_form_is_counted() -> None:
    form = JsonFormat()
    assert form.render([Message("/a", 1), Message("/a", EXTENSION), Message("/a", 2)]).count(b"\n") == 2
    assert form.formless_messages == 1


def test_where_a_record_stands() -> None:
    records = [RecordedMessage("/a", {1: "a"}, 6, 0), RecordedMessage("/a", {None: 1}, 7, 0)]
    lines = [json.loads(line) for line in JsonFormat().render(records, 9).splitlines()]
    assert [(line["offset"], line["epoch"]) for line in lines] == [(6, 9), (7, 9)]
    assert "epoch" not in json.loads(JsonFormat().render(records[:1]))


def test_pretty_lines_are_cut_to_the_terminal() -> None:
    message = Message("/topic", "x" * 100)
    assert pretty(message, width=40) == f'17:15:20.600 /topic "{"x" * 18}…\n'
    assert pretty(message) == f'17:15:20.600 /topic "{"x" * 100}"\n'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain äöü 日本", "plain äöü 日本"),
        ("\x1b[31mred", "\\u001b[31mred"),
        ("a\u2028b\x7f", "a\\u2028b\\u007f"),
        ("\U000e0001", "\\udb40\\udc01"),
    ],
)
def test_what_does_not_print_is_escaped(text: str, shown: str) -> None:
    assert escaped(text) == shown


@given(st.text(), st.text(min_size=1))
def test_nothing_steers_a_terminal(text: str, topic: str) -> None:
    safe = JsonFormat(safe=True).render([Message(topic, {text: text})]).decode()
    assert json.loads(safe) == {"topic": topic, "value": {text: text}}
    event = PrettyFormat(zeek=True).render([Message("/a", Event(f"a{text}", text).value)], AT, None).decode()
    for lines in (PrettyFormat().render([Message(topic, {text: text})], AT, 60).decode(), safe, event):
        assert lines.endswith("\n")
        assert lines[:-1].isprintable()


@given(st.text(st.characters(categories=["L", "N", "P", "S"])), st.integers(2, 30))
def test_a_cut_line_fits(line: str, width: int) -> None:
    found = cut(line, width)
    assert cell_len(found) <= width
    if cell_len(line) <= width and len(line) <= width:
        assert found == line


def test_labels_and_names_are_shown() -> None:
    named = TaggedMessage(tagged("/a", ["zeek-node=worker-1"]), Event("Demo::hello", "a").value)
    line = json.loads(JsonFormat(zeek=True).render([named]))
    assert line == {"topic": "/a", "event": "Demo::hello", "args": ["a"], "labels": ["zeek-node=worker-1"]}
    message = TaggedMessage(tagged("/a", ["low", "b"], "s.s", "d.d"), 1)
    line = json.loads(JsonFormat().render([message]))
    assert line == {"topic": "/a", "value": 1, "labels": ["b", "low"], "sender": "s.s", "to": "d.d"}
    shown = PrettyFormat().render([message, Message("/a", 2)], datetime(2024, 1, 1, tzinfo=UTC), None).decode()
    assert [text.partition(" ")[2] for text in shown.splitlines()] == ["/a [b, low] from s.s to d.d 1", "/a 2"]


EVENT_AT = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


def test_arguments() -> None:
    written = """[3, -3, 1.5, true, null, "x", [1], {"a": 2}, {"@data-type": "port", "data": "53/udp"},
                  {"@data-type": "enum-value", "data": "Notice::LOG"}, {"@data-type": "integer", "data": 3}]"""
    event = event_of("Demo::all", written)
    assert event == Event(
        "Demo::all",
        Count(3),
        -3,
        1.5,
        True,
        None,
        "x",
        (Count(1),),
        Table([("a", Count(2))]),
        Port(53, "udp"),
        Enum("Notice::LOG"),
        3,
    )
    assert event_of("Demo::none", None) == Event("Demo::none")


@pytest.mark.parametrize(
    ("written", "cause"),
    [
        ("[1", "--zeek-event x: the arguments are no JSON"),
        ('{"a": 1}', "the arguments are a JSON array"),
        ('[1, {"@data-type": "port", "data": 53}]', "argument 2 contained invalid data"),
        ('[{"@data-type": "count", "data": -1}]', "argument 1 contained invalid data"),
    ],
)
def test_bad_arguments(written: str, cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        event_of("x", written)


def test_shown() -> None:
    event = Event("Notice::new", "text", ip_address("192.0.2.7"), timestamp=EVENT_AT)
    messages = [
        Message("/zeek/a", event.value),
        Message("/zeek/b", (Count(1), Port(53, "udp"))),
        Message("/c", {"k": 1}),
        Message("/d", "\x1b[2J"),
    ]
    assert PrettyFormat(zeek=True).render(messages, EVENT_AT, None).decode() == (
        "03:04:05.678 /zeek/a Notice::new(text, 192.0.2.7)\n"
        "03:04:05.678 /zeek/b (1, 53/udp)\n"
        '03:04:05.678 /c {"k":1}\n'
        '03:04:05.678 /d "\\u001b[2J"\n'
    )
    lines = JsonFormat(zeek=True).render(messages[:3]).splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "topic": "/zeek/a",
            "event": "Notice::new",
            "args": ["text", "192.0.2.7"],
            "timestamp": "2026-01-02T03:04:05.678Z",
        },
        {"topic": "/zeek/b", "value": [1, "53/udp"]},
        {"topic": "/c", "value": {"k": 1}},
    ]


def test_values_of_zeek_without_the_flag() -> None:
    value = (Count(3), Timestamp.of(EVENT_AT), Enum("A::B"), ip_address("::1"), Table([(Count(1), None)]))
    shown = '[3,"2026-01-02T03:04:05.678Z","A::B","::1",{"1":null}]'
    assert JsonFormat().render([Message("/a", value)]).decode() == f'{{"topic":"/a","value":{shown}}}\n'
    assert PrettyFormat().render([Message("/a", value)], EVENT_AT, None).decode().endswith(f"/a {shown}\n")


HELLO = Hello(protocol=1, role="hub", id=bytes(16), name="h\x1b[2J", queue=QueueWish(overflow=Overflow.DROP_NEWEST))


@pytest.fixture(autouse=True)
def _restored_logger() -> Iterator[None]:
    """Give the client's logger back as it was: a command silences it for its whole process."""
    log = logging.getLogger("peers.client")
    before = log.propagate, list(log.handlers)
    yield
    log.propagate, log.handlers[:] = before


async def test_a_total_follows_when_losses_were_told_before(capsys: pytest.CaptureFixture[str]) -> None:
    notices = Notices("sub")
    options = notices.options(HubFlags(name="me"))
    options["on_connect"](HELLO)
    options["on_dropped"](4)
    options["on_dropped"](6)
    notices._tell_dropped()
    options["on_dropped"](7)
    notices.finish()
    said = capsys.readouterr().err.splitlines()
    by_policy = " messages lost by drop-newest; read faster, or ask for a larger queue"
    assert said == [f"hub sub: 10{by_policy}", f"hub sub: 7{by_policy}", "hub sub: 17 messages lost in all"]


async def test_lost_and_new_connections_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    options = Notices("sub").options(HubFlags(name="me"))
    options["on_connect"](HELLO)
    assert not capsys.readouterr().err
    options["on_disconnect"]("going away (1001)")
    options["on_connect"](HELLO)
    options["on_cut"](range(3, 10))
    assert capsys.readouterr().err.splitlines() == [
        "hub sub: connection lost, trying again: going away (1001)",
        "hub sub: connected again to hub h\\u001b[2J",
        "hub sub: records 3 to 9 are lost; others replace them, from 3 on",
    ]


async def test_bad_messages_are_counted_and_the_first_refusal_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    notices = Notices("sub")
    options = notices.options(HubFlags(name="me"))
    options["on_bad_message"](BadMessage("/a", b"\xc1", 3, "not msgpack"))
    for refusal in (RejectedError(1008, "not allowed"), RejectedError(1009, "too big")):
        options["on_rejected"](refusal)
    notices.finish()
    assert capsys.readouterr().err == "hub sub: 3 messages not shown: no msgpack\n"
    assert notices.rejection == "not allowed (1008)"
