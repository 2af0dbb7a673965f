"""From lines to messages: topics from templates, when each is due, and what is wrong with a line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peers.cli.replay import (
    _MAX_PAUSE_S,
    BadLineError,
    FieldError,
    Recorded,
    Replay,
    Schedule,
    TemplateError,
    decode_record,
    decode_value,
    template,
    time_s,
)


@pytest.mark.parametrize(
    ("text", "record", "topic"),
    [
        ("/zeek/{_path}", {"_path": "dns"}, "/zeek/dns"),
        ("/{a}/{b}/{a}", {"a": "x", "b": 5}, "/x/5/x"),
        ("/{{not}}/{a}", {"a": "x"}, "/{not}/x"),
        ("/{a}", {"a": True}, "/true"),
        ("/{a}", {"a": 1.5}, "/1.5"),
        ("/{a}", {"a": -3}, "/-3"),
        ("/{id.orig_h}", {"id.orig_h": "flat", "id": {"orig_h": "nested"}}, "/flat"),
        ("/{id.orig_h}", {"id": {"orig_h": "nested"}}, "/nested"),
    ],
)
def test_fields_are_filled(text: str, record: dict[str, object], topic: str) -> None:
    assert template(text)(record) == topic


@pytest.mark.parametrize(
    ("text", "record", "reason"),
    [
        ("/{a}", {}, "field 'a' is missing"),
        ("/{a.b}", {"a": 5}, "field 'a.b' is missing"),
        ("/{a}", {"a": None}, "field 'a' is null"),
        ("/{a}", {"a": [1]}, "field 'a' is a list, a topic takes texts and numbers"),
        ("/{a}", {"a": {}}, "field 'a' is a map, a topic takes texts and numbers"),
        ("/{a}/{b}", {"a": "x"}, "field 'b' is missing"),
    ],
)
def test_a_record_that_does_not_fit_names_the_field(text: str, record: dict[str, object], reason: str) -> None:
    with pytest.raises(FieldError) as caught:
        template(text)(record)
    assert str(caught.value) == reason


@pytest.mark.parametrize("text", ["/{", "/}", "/{a", "/a}", "/{}", "/{a{b}}", "/{{a}"])
def test_a_template_with_loose_braces_is_refused(text: str) -> None:
    with pytest.raises(TemplateError):
        template(text)


@given(before=st.text("/ab{}"), value=st.text(), after=st.text("/ab{}"))
def test_filling_is_concatenation(before: str, value: str, after: str) -> None:
    text = before.replace("{", "{{").replace("}", "}}") + "{f}" + after.replace("{", "{{").replace("}", "}}")
    assert template(text)({"f": value}) == before + value + after


T0 = 1521911720.0


def pauses(pace: Recorded, *times: float) -> list[float]:
    return [pace.pause_s({"ts": at}) for at in times]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2018-03-24T17:15:20.600725Z", 1521911720.600725),
        ("2018-03-24T17:15:20.600725123Z", 1521911720.600725),
        ("2018-03-24T18:15:20+01:00", 1521911720.0),
        ("2018-03-24T17:15:20", 1521911720.0),
        ("1521911720.5", 1521911720.5),
        (1521911720, 1521911720.0),
        (1521911720.25, 1521911720.25),
    ],
)
def test_times_are_texts_or_numbers(value: object, seconds: float) -> None:
    assert time_s(value, "ts") == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize("value", ["yesterday", "", "nan", "inf", True, [], {}])
def test_what_is_no_time_is_named(value: object) -> None:
    with pytest.raises(FieldError, match="field 'ts' is not a time"):
        time_s(value, "ts")


@pytest.mark.parametrize(
    ("speed", "times", "expected"),
    [
        (2, (0, 1, 4), [0, 0.5, 1.5]),
        (1, (0, 10, 3, 9, 12), [0, 10, 0, 0, 2]),  # late ones follow at once
        (1, (0, 3600, 3601), [0, _MAX_PAUSE_S, 1]),
        (1, (1e8, *range(20)), [0.0] * 9 + [1.0] * 12),  # a clock that jumped ahead is set back
        (1, (0, -1e8, 1, -1e8, 2), [0, 0, 1, 0, 1]),
    ],
)
def test_recorded_pauses(speed: float, times: tuple[float, ...], expected: list[float]) -> None:
    assert pauses(Recorded(speed), *(T0 + at for at in times)) == expected


def test_delays_do_not_add_up() -> None:
    schedule = Schedule(100.0)
    assert schedule.wait_s(0.25, 100.0) == 0.25
    assert schedule.wait_s(0.25, 100.4) == pytest.approx(0.1)
    assert schedule.wait_s(0.25, 100.9) == pytest.approx(-0.15)
    assert schedule.wait_s(0.25, 100.9) == pytest.approx(0.1)


def test_a_long_stall_is_not_caught_up() -> None:
    schedule = Schedule(0.0)
    waits = [schedule.wait_s(0.25, 600.0) for _ in range(8)]
    assert [wait_s for wait_s in waits if wait_s <= 0] == pytest.approx([-1.0, -0.75, -0.5, -0.25, 0.0])
    assert waits[5:] == pytest.approx([0.25, 0.5, 0.75])


@given(st.lists(st.floats(-1e10, 1e10)), st.floats(0.1, 1000))
def test_no_pause_is_negative_or_over_the_cap(times: list[float], speed: float) -> None:
    assert all(0 <= pause_s <= _MAX_PAUSE_S for pause_s in pauses(Recorded(speed), *times))


def recording(pace: Recorded | None = None) -> Replay:
    replay = Replay(decode_record, template("/t/{p}"), pace, skip_bad=False)
    replay.begin("file.gz")
    return replay


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b"-1.5", -1.5),
        (b"null", None),
        (b"true", True),
        (b" 5 ", 5),
        (b"NaN", "NaN"),
        (b"{a:1}", "{a:1}"),
        (b"5 apples", "5 apples"),
        ("grüße".encode(), "grüße"),
        (b"", ""),
        (b"[" * 100_000, "[" * 100_000),
    ],
)
def test_a_value_is_json_or_else_text(line: bytes, value: Any) -> None:
    found = decode_value(line)
    assert found == value
    assert type(found) is type(value)


def test_pauses_come_with_the_messages() -> None:
    replay = recording(Recorded())
    lines = [b'{"p":"a","ts":10}', b'{"p":"a","ts":12}']
    assert [pause_s for _, _, pause_s in replay.messages(lines)] == [0, 2]
    replay.begin("again")
    assert [pause_s for _, _, pause_s in replay.messages([lines[0], b'{"p":"a","_write_ts":12}'])] == [0, 2]
    with pytest.raises(BadLineError, match="again: line 3"):
        list(replay.messages([b"x"]))


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
    replay = recording()
    messages = replay.messages([b'{"p":"a"}', b"", line, b'{"p":"b"}'])
    assert next(messages)[0] == "/t/a"
    with pytest.raises(BadLineError, match=f"^file.gz: line 3: {reason}.*--skip-bad"):
        next(messages)
