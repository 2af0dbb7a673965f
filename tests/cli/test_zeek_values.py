"""Zeek events on the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from ipaddress import ip_address

import pytest

from hub.batch import Message
from hub.errors import UsageError
from peers.cli.display import JsonFormat, PrettyFormat
from peers.cli.zeek_values import event_fields, event_of, shown_event
from peers.values import Count, Enum, Port, Table, Timestamp
from peers.values.event import Event

AT = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


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
    event = Event("Notice::new", "text", ip_address("192.0.2.7"), timestamp=AT)
    messages = [
        Message("/zeek/a", event.value),
        Message("/zeek/b", (Count(1), Port(53, "udp"))),
        Message("/c", {"k": 1}),
        Message("/d", "\x1b[2J"),
    ]
    assert PrettyFormat(show=shown_event).render(messages, AT, None).decode() == (
        "03:04:05.678 /zeek/a Notice::new(text, 192.0.2.7)\n"
        "03:04:05.678 /zeek/b (1, 53/udp)\n"
        '03:04:05.678 /c {"k":1}\n'
        '03:04:05.678 /d "\\u001b[2J"\n'
    )
    lines = JsonFormat(fields=event_fields).render(messages[:3]).splitlines()
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


def test_an_event_cannot_steer_the_terminal() -> None:
    event = Event("a\x1b[2J", "\u202e")
    line = PrettyFormat(show=shown_event).render([Message("/a", event.value)], AT, None).decode()
    assert line == "03:04:05.678 /a a\\u001b[2J(\\u202e)\n"


def test_values_of_zeek_without_the_flag() -> None:
    value = (Count(3), Timestamp.of(AT), Enum("A::B"), ip_address("::1"), Table([(Count(1), None)]))
    shown = '[3,"2026-01-02T03:04:05.678Z","A::B","::1",{"1":null}]'
    assert JsonFormat().render([Message("/a", value)]).decode() == f'{{"topic":"/a","value":{shown}}}\n'
    assert PrettyFormat().render([Message("/a", value)], AT, None).decode().endswith(f"/a {shown}\n")
