"""From lines to messages."""

from __future__ import annotations

from typing import Any

import pytest

from peers.cli.replay import (
    BadLineError,
    Recorded,
    Replay,
    Template,
    UnreadableError,
    decode_record,
    decode_text,
    decode_value,
)


def recording(*, skip_bad: bool = False, pace: Recorded | None = None) -> Replay:
    """A replay of records with the field `p`."""
    replay = Replay(decode_record, Template("/t/{p}").fill, pace, skip_bad=skip_bad)
    replay.begin("file.gz")
    return replay


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b"5", 5),
        (b"-1.5", -1.5),
        (b"null", None),
        (b"true", True),
        (b'{"a":[1]}', {"a": [1]}),
        (b'"5"', "5"),
        (b" 5 ", 5),
        (b"hello", "hello"),
        (b"NaN", "NaN"),
        (b"{a:1}", "{a:1}"),
        (b"5 apples", "5 apples"),
        ("grüße".encode(), "grüße"),
        (b"", ""),
        (b"[" * 100_000, "[" * 100_000),
    ],
)
def test_a_value_is_json_or_else_text(line: bytes, value: Any) -> None:
    """What reads as JSON is that; everything else is text, as it stands."""
    found = decode_value(line)
    assert found == value
    assert type(found) is type(value)


def test_text_stays_text() -> None:
    """Asked for text, a number is text."""
    assert decode_text(b"5") == "5"


def test_bytes_that_are_no_text_are_refused() -> None:
    """Neither JSON nor UTF-8: the error says where."""
    with pytest.raises(UnreadableError, match="not UTF-8 at byte 2"):
        decode_value(b"ab\xff")


def test_records_become_messages_in_order() -> None:
    """Each line gives its topic, its record and no pause at full speed; empty lines are passed over."""
    replay = recording()
    assert list(replay.messages([b'{"p":"a","n":1}', b"", b'{"p":"b"}'])) == [
        ("/t/a", {"p": "a", "n": 1}, 0.0),
        ("/t/b", {"p": "b"}, 0.0),
    ]
    assert not replay.paced


def test_pauses_come_with_the_messages() -> None:
    """With a pace, each message bears its pause; beginning anew begins the pace anew."""
    replay = recording(pace=Recorded())
    lines = [b'{"p":"a","ts":10}', b'{"p":"a","ts":12}']
    assert [pause_s for _, _, pause_s in replay.messages(lines)] == [0, 2]
    replay.begin("file.gz")
    assert [pause_s for _, _, pause_s in replay.messages(lines)] == [0, 2]
    assert replay.paced


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"nonsense", "not a JSON object: JSON is malformed: invalid character"),
        (b"[1]", "not a JSON object: Expected `object`, got `array`"),
        (b'{"p":', "not a JSON object: Input data was truncated"),
        (b'{"p":"\xff"}', "not a JSON object: .*utf-8"),
        (b'{"p":' + b"[" * 100_000, "not a JSON object: "),
        (b'{"q":"a"}', "field 'p' is missing"),
        (b'{"p":[]}', "field 'p' is a list"),
    ],
)
def test_a_bad_line_stops_with_its_number(line: bytes, reason: str) -> None:
    """The error names file, line and cause, and the flag that goes on; lines before it were yielded."""
    replay = recording()
    messages = replay.messages([b'{"p":"a"}', b"", line, b'{"p":"b"}'])
    assert next(messages)[0] == "/t/a"
    with pytest.raises(BadLineError, match=f"^file.gz: line 3: {reason}.*--skip-bad"):
        next(messages)


def test_bad_lines_can_be_counted_instead() -> None:
    """With `skip_bad` the good lines go on, the bad ones are counted, and the first is remembered."""
    replay = recording(skip_bad=True)
    lines = [b"x", b'{"p":"a"}', b'{"q":1}', b'{"p":"b"}', b"y"]
    assert [topic for topic, _, _ in replay.messages(lines)] == ["/t/a", "/t/b"]
    assert replay.bad_lines == 3
    assert replay.first_bad.startswith("file.gz: line 1: not a JSON object")


def test_line_numbers_go_on_over_pieces_and_begin_anew_with_an_input() -> None:
    """The number is that within the file, however it is read, also when the file is read again."""
    replay = recording()
    list(replay.messages([b'{"p":"a"}', b'{"p":"a"}']))
    with pytest.raises(BadLineError, match="line 3"):
        list(replay.messages([b"x"]))
    replay.begin("again")
    with pytest.raises(BadLineError, match="again: line 1"):
        list(replay.messages([b"x"]))


def test_what_cannot_be_published_counts_as_bad() -> None:
    """A message that its client refuses is booked on the line that it came from."""
    replay = recording(skip_bad=True)
    for _ in replay.messages([b'{"p":"a"}', b'{"p":"b"}']):
        replay.reject("too long")
    assert (replay.bad_lines, replay.first_bad) == (2, "file.gz: line 1: too long")
