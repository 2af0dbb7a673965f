"""Probes and what is told of them, in ROUTING: what is told is what is heard, and what is refused."""

from __future__ import annotations

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode, RejectedError
from hub.frame import HEADER_BYTES
from hub.topics import TOPIC_LIMIT_BYTES
from peers.wire.kinds import Kind
from peers.wire.probe import HOPS_LIMIT, LINKS_LIMIT, PROBE_BYTES, Probe, ProbeReport, encode_probe
from peers.wire.routing import decode_routing
from tests.wire.pair import frames_of

_HUB, _OTHER = b"h" * 16, b"o" * 16

_numbers = st.integers(0, 2**32 - 1)
_hops = st.integers(1, HOPS_LIMIT)
_us = st.integers(0, 2**53)
_words = st.sampled_from(["sent", "policy", "", "ä" * 16])
_ids = st.binary(min_size=16, max_size=16)
_probes = st.builds(Probe, _numbers, st.sampled_from(["/a", "ä" * 512]), _hops, _us)
_reports = st.builds(
    ProbeReport,
    *(_ids, _numbers, _ids, _ids, _hops, _us, _us, _words, _numbers),
    st.lists(st.tuples(_ids, _words), max_size=3).map(tuple),
    _numbers,
)
_REPORT = ProbeReport(_HUB, 1, _OTHER, _HUB, 1, 0, 0, "taken", 0, (), 0)


@given(item=_probes | _reports)
def test_what_is_told_is_heard(item: Probe | ProbeReport) -> None:
    """One frame of ROUTING."""
    (frame,) = frames_of(encode_probe(item))
    assert frame.kind == Kind.ROUTING
    assert decode_routing(frame.body) == item


def test_the_largest() -> None:
    """No probe is larger than what is charged for it; a report has 9 KB at most, but for what it calls outcomes."""
    largest = Probe(2**32 - 1, "x" * TOPIC_LIMIT_BYTES, HOPS_LIMIT, 2**53)
    assert len(encode_probe(largest)) <= PROBE_BYTES < len(encode_probe(largest)) + HEADER_BYTES + 8
    links = tuple((bytes([number]) * 16, "too far") for number in range(LINKS_LIMIT))
    report = msgspec.structs.replace(_REPORT, links=links)
    assert decode_routing(encode_probe(report)[HEADER_BYTES:]) == report
    assert len(encode_probe(report)) < 9_000


_FIELDS = [6, _HUB, 1, _OTHER, _HUB, 1, 0, 0, "taken", 0, [], 0]


def report_with(place: int, value: object) -> bytes:
    """A report with something else at a place."""
    return msgpack.packb([*_FIELDS[:place], value, *_FIELDS[place + 1 :]])


BAD = {
    "a probe without a topic": (msgpack.packb([5, 1]), "length"),
    "an empty topic": (msgpack.packb([5, 1, "", 1, 0]), "topic is empty"),
    "a long topic": (msgpack.packb([5, 1, "x" * 1025, 1, 0]), "1025 bytes long"),
    "a control character": (msgpack.packb([5, 1, "/\n", 1, 0]), "U+000A"),
    "no hops": (msgpack.packb([5, 1, "/a", 0, 0]), "1"),
    "too many hops": (msgpack.packb([5, 1, "/a", HOPS_LIMIT + 1, 0]), "64"),
    "a time below 0": (msgpack.packb([5, 1, "/a", 1, -1]), "0"),
    "a time that cannot be": (msgpack.packb([5, 1, "/a", 1, 2**63]), ""),
    "a large number": (msgpack.packb([5, 2**32, "/a", 1, 0]), "4294967295"),
    "a text for a number": (msgpack.packb([5, "1", "/a", 1, 0]), "int"),
    "something behind it": (msgpack.packb([5, 1, "/a", 1, 0, 0]), "length"),
    "a report of nothing": (msgpack.packb([6]), "length"),
    "a short id": (report_with(1, b"h" * 15), "16"),
    "a long word": (report_with(8, "x" * 17), "16"),
    "too many links": (report_with(10, [[_HUB, "sent"]] * (LINKS_LIMIT + 1)), "256"),
    "a link without a word": (report_with(10, [[_HUB]]), "length"),
    "nested deep": (msgpack.packb([6])[:-1] + b"\x91" * 60_000, ""),
}


@pytest.mark.parametrize(("body", "cause"), BAD.values(), ids=BAD.keys())
def test_what_cannot_be(body: bytes, cause: str) -> None:
    """Is refused with one text that says what is wrong."""
    with pytest.raises(RejectedError, match=r"^ROUTING: .") as refused:
        decode_routing(body)
    assert refused.value.code == CloseCode.BAD_DATA
    assert cause in refused.value.text


def test_the_hubs_own_topics() -> None:
    """Cross no link, and neither does a probe of them."""
    with pytest.raises(RejectedError, match=r"ROUTING: topic '\$hub/mesh' is of a hub's own topics") as refused:
        decode_routing(msgpack.packb([5, 1, "$hub/mesh", 1, 0]))
    assert refused.value.code == CloseCode.NOT_ALLOWED
