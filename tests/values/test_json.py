"""Broker's JSON form: recordings in both directions, laws, and what is refused with which words."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peers.values import (
    CONVERTED_ELEMENTS_LIMIT,
    CONVERTED_LIMIT_BYTES,
    DEPTH_LIMIT,
    Count,
    Enum,
    InvalidDataError,
    InvalidInputError,
    Set,
    Table,
    Value,
    decode,
    decode_message,
    encode,
    encode_json,
    encode_message,
    to_text,
)
from peers.values.binary import length_bytes
from tests.values import recorded
from tests.values.recorded import mutations

_VALUES = recorded.values()
_SERVER = recorded.server_messages()
_CASES = {**recorded.client_values(), **recorded.client_faults()}

_BETTER_THAN_BROKER = {
    "real-pi": "3.141592653589793",
    "real-tiny": "-1.596672247627776e+293",
    "real-huge": "1.7976931348623157e+308",
    "real-inf": '"Infinity"',
    "real-neginf": '"-Infinity"',
    "real-nan": '"NaN"',
    "real-1e-7": "1e-07",
    "timestamp-ns": '"2022-04-10T07:00:00.123456789"',
    "timestamp-us": '"2022-04-10T07:00:00.123456"',
    "timestamp-neg": '"1969-12-31T23:59:58.500"',
    "string-escapes": r'"q\" b\\ s/ nl\n tab\t cr\r bs\b ff\f nul\u0000 del' + "\x7f" + r' esc\u001b"',
}
"""The data where Broker loses something or writes no JSON."""


_NONE = '{"@data-type":"none"}'


def _context(text: bytes, limit_bytes: int = CONVERTED_LIMIT_BYTES) -> str | None:
    try:
        decode_message(text, limit_bytes)
    except InvalidInputError as error:
        return str(error)
    return None


def _message(data: str) -> bytes:
    return b'{"topic":"/t",' + data.encode(errors="surrogateescape") + b"}"


@pytest.mark.parametrize("kind", [kind for kind in _SERVER if kind != "string-allbytes"])
def test_messages_are_written_as_recorded(kind: str) -> None:
    expected = _SERVER[kind]
    if kind in _BETTER_THAN_BROKER:
        expected = expected.partition(b'"data":')[0] + b'"data":' + _BETTER_THAN_BROKER[kind].encode() + b"}"
    assert encode_message(f"/test/{kind}".encode(), _VALUES[kind]) == expected


@pytest.mark.parametrize("name", _CASES)
def test_messages_of_clients_are_taken_or_refused_as_recorded(name: str) -> None:
    case = _CASES[name]
    found = _context(case.text)
    is_json = case.context is None or "malformed JSON" not in case.context
    assert found == case.context if is_json else str(found).startswith("contained ")
    if case.context is None:
        value = decode(encode(decode(decode_message(case.text)[1])))  # sorted, as Broker holds it
        if case.received is not None and "..." not in case.received:
            assert to_text(value) == case.received


_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["data", "key", "value"]), inner),
    max_leaves=6,
)


@given(st.sampled_from(["none", "boolean", "count", "real", "timespan", "vector", "set", "table", "x"]), _JSON)
def test_any_json_is_a_message_or_refused(name: str, data: Any) -> None:
    text = json.dumps({"@data-type": name, "data": data}).encode()
    context = _context(text)
    assert context != ""
    if context is None:
        assert encode_json(decode_message(text)[1])


@given(st.binary(max_size=40))
def test_any_bytes_are_a_message_or_refused(text: bytes) -> None:
    assert _context(text) != ""


@pytest.mark.parametrize("name", _CASES)
def test_broken_messages_are_refused_or_messages(name: str) -> None:
    chance = random.Random(name)  # noqa: S311  to be repeatable
    for text in mutations(_CASES[name].text, chance):
        if _context(text) is None:
            assert encode_json(decode_message(text)[1])


@pytest.mark.parametrize(
    ("text", "context"),
    [
        (b"\n\n x", "Expecting value: line 3 column 2 (char 3)"),
        (b'{"a":1,\n"b" 2}', "Expecting ':' delimiter: line 2 column 5 (char 12)"),
        (b'{"a":truf}', "Expecting value: line 1 column 6 (char 5)"),
        (b'{"a":"x', "Unterminated string starting at: line 1 column 6 (char 5)"),
        (b'{"a":"b\0c"}', "Unterminated string starting at: line 1 column 6 (char 5)"),
        (b"{} {}", "Extra data: line 1 column 4 (char 3)"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_malformed_json(text: bytes, context: str) -> None:
    assert _context(text) == f"contained malformed JSON -> {context}"


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ('"@data-type":"string","data":"a\\/b\\u000b"', "a/b\x0b"),
        ('"@data-type":"string","data":"a\\vb"', "a\x0bb"),
        ('"@data-type":"string","data":"a\x01b"', "a\x01b"),
        ('"@data-type":"string","data":"\\udcff"', "\udcff"),
        ('"@data-type":"string","data":"\\v\\udcff\\ud83d\\ude00"', "\x0b\udcff😀"),
        ('"@data-type"\f:"count",\v"data":7', Count(7)),
        ('"@data-type":"real","data":1e2', 100.0),
        ('"@data-type":"enum-value","data":"A::B"', Enum("A::B")),
        ('"data":1,"data":2,"@data-type":"count","@data-type":"none"', Count(1)),
        ('"data":1,"data":2,"@data-type":"count","x":"\\v"', Count(1)),
        ('"@data-type":"none","data":{"@data-type":"count","data":-1}', None),
        (f'"@data-type":"table","data":[{{"key":{_NONE},"value":{_NONE}}}]', Table({None: None})),
        ('"@data-type":"real","data":nan', float("nan")),
    ],
)
def test_what_broker_takes_is_taken(data: str, value: Value) -> None:
    assert repr(decode(decode_message(_message(data))[1])) == repr(value)


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("subnet", "10.0.0.0/256", None),
        ("subnet", "::/129", "::/0"),
        ("subnet", "x/8", None),
        ("subnet", "2001:db8::1/32", "2001:db8::/32"),
        ("address", "fe80::1%eth0", None),
        ("address", "1.2.3", None),
        ("address", "1" * 50, None),
        ("address", "1:0:0:2:0:0:0:3", "1:0:0:2::3"),
        ("address", "::", "::"),
        ("address", "1::", "1::"),
        ("port", "", None),
        ("port", "80/", "80/?"),
        ("timestamp", "2022-02-30T00:00:00", None),
        ("timestamp", "2022-02-20T24:00:00", None),
        ("timestamp", "2022-02-20T07:00:00.1-0130", "1645345800100000000ns"),
        ("timestamp", "2022-02-20T07:00:00-01", "1645344000000000000ns"),
        ("timestamp", "9999-01-01T00:00:00", None),
        ("timestamp", "0000-01-01T00:00:00", None),
        ("timespan", "1.5e-9s", "1ns"),
        ("timespan", "-.5ms", "-500000ns"),
        ("timespan", "1e300h", None),
        ("timespan", "9223372036854775808ns", None),
        ("timespan", "5d", None),
    ],
)
def test_texts_are_read_leniently(kind: str, data: str, text: str | None) -> None:
    message = _message(f'"@data-type":"{kind}","data":"{data}"')
    if text is None:
        assert _context(message) == "contained invalid data"
    else:
        assert to_text(decode(decode_message(message)[1])) == text


def test_duplicates_are_told_after_all_else() -> None:
    twice = f'{{"@data-type":"set","data":[{_NONE},{_NONE}]}}'
    for data, context in (
        (f"{twice},{{}}", "contained invalid data"),
        (twice, 'caused an internal error -> deserialization_failed("failed to parse data")'),
    ):
        assert _context(_message(f'"@data-type":"vector","data":[{data}]')) == context


def test_nesting_is_bounded() -> None:
    body = b"\x0e\x01" * (DEPTH_LIMIT - 1) + b"\x0e\x00"
    message = encode_message(b"/t", body)
    assert decode_message(message) == (b"/t", body)
    deeper = message.replace(b"[]", b'[{"@data-type":"vector","data":[]}]')
    context = _context(deeper)
    assert context == "contained invalid data"
    with pytest.raises(InvalidDataError, match="are nested"):
        encode_json(b"\x0e\x01" * 100_000 + b"\x00")


def test_sizes_are_bounded() -> None:
    assert _context(b" " * (CONVERTED_LIMIT_BYTES + 1)) == f"is longer than {CONVERTED_LIMIT_BYTES} bytes"
    with pytest.raises(InvalidDataError, match="too many for JSON"):
        encode_json(b"\x05" + bytes(CONVERTED_LIMIT_BYTES))
    count = CONVERTED_ELEMENTS_LIMIT + 1
    with pytest.raises(InvalidDataError, match="elements"):
        encode_json(b"\x0e" + length_bytes(count) + bytes(count))
    nothing = b",".join([b'{"@data-type":"none"}'] * count)
    assert _context(b'{"@data-type":"vector","data":[' + nothing + b"]}", 1 << 20) == "contained invalid data"


def test_topics_and_the_order_of_sets_are_kept() -> None:
    body = bytes.fromhex("0c02020000000000000009020000000000000001")
    for message in ((b'a"\\\n' + b"\xff", b"\x00"), (b"", body)):
        assert decode_message(encode_message(*message)) == message
    assert decode(body) == Set([Count(1), Count(9)])


def test_what_is_no_json_is_gone_through_once() -> None:
    for text in (b'"\\v' + b'\\"' * 60_000, b'nan"' * 30_000, b'"\\v' + b"\\" * 120_000, b"[" + b'"\\v",' * 20_000):
        started = time.perf_counter()
        assert str(_context(text)).startswith("contained malformed JSON")
        assert time.perf_counter() - started < 2
