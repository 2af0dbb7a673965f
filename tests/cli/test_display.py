"""How messages become lines of output, and when that ends."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from hub.batch import Message
from hub.journal.message import RecordedMessage
from hub.tags.envelope import TaggedMessage, tagged
from peers.cli.display import JsonFormat, PrettyFormat
from peers.cli.texts import cut, escaped
from peers.cli.zeek_values import event_fields
from peers.values import Port
from peers.values.event import Event

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
        (math.inf, "null"),
        (2**64 - 1, "18446744073709551615"),
        ({1: "a", 1.5: "b"}, '{"1":"a","1.5":"b"}'),
        ({None: 1}, '{"null":1}'),
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


def test_events_of_zeek_have_their_labels() -> None:
    message = TaggedMessage(tagged("/a", ["zeek-node=worker-1"]), Event("Demo::hello", "a").value)
    (line,) = JsonFormat(fields=event_fields).render([message]).splitlines()
    assert json.loads(line) == {"topic": "/a", "event": "Demo::hello", "args": ["a"], "labels": ["zeek-node=worker-1"]}


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


def test_colours_do_not_change_what_is_shown() -> None:
    for topic, width in (("/topic", 40), ("/a" * 40, 30)):
        message = Message(topic, "x" * 100)
        coloured = pretty(message, width=width, colour=True)
        assert coloured.count("\x1b[") == 4
        plain = coloured
        for sequence in {part.split("m")[0] for part in coloured.split("\x1b[")[1:]}:
            plain = plain.replace(f"\x1b[{sequence}m", "")
        assert plain == pretty(message, width=width)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain äöü 日本", "plain äöü 日本"),
        ("\x1b[31mred", "\\u001b[31mred"),
        ("\x9b31m", "\\u009b31m"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u2028b\x7f", "a\\u2028b\\u007f"),
        ("\U000e0001", "\\udb40\\udc01"),
    ],
)
def test_what_does_not_print_is_escaped(text: str, shown: str) -> None:
    assert escaped(text) == shown


@given(st.text(), st.text(min_size=1))
def test_nothing_steers_a_terminal(text: str, topic: str) -> None:
    for lines in (
        PrettyFormat().render([Message(topic, {text: text})], AT, 60).decode(),
        JsonFormat(safe=True).render([Message(topic, {text: text})]).decode(),
    ):
        assert lines.endswith("\n")
        assert lines[:-1].isprintable()


@given(st.text(), st.text(min_size=1))
def test_json_for_a_terminal_is_still_the_same_json(text: str, topic: str) -> None:
    assert json.loads(JsonFormat(safe=True).render([Message(topic, text)])) == {"topic": topic, "value": text}


@given(st.text(st.characters(categories=["L", "N", "P", "S"])), st.integers(2, 30))
def test_a_cut_line_fits(line: str, width: int) -> None:
    found = cut(line, width)
    assert cell_len(found) <= width
    if cell_len(line) <= width and len(line) <= width:
        assert found == line


def test_labels_and_names_are_shown() -> None:
    message = TaggedMessage(tagged("/a", ["low", "b"], "s.s", "d.d"), 1)
    line = json.loads(JsonFormat().render([message]))
    assert line == {"topic": "/a", "value": 1, "labels": ["b", "low"], "sender": "s.s", "to": "d.d"}
    shown = PrettyFormat().render([message, Message("/a", 2)], datetime(2024, 1, 1, tzinfo=UTC), None).decode()
    assert [text.partition(" ")[2] for text in shown.splitlines()] == ["/a [b, low] from s.s to d.d 1", "/a 2"]
