"""What was recorded of Broker: values on the wire, and JSON in both directions."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Address, IPv6Network
from pathlib import Path
from typing import NamedTuple

from hypothesis import strategies as st

from peers.values import Count, Enum, Port, Set, Table, Timespan, Timestamp, Value

_RECORDINGS = Path(__file__).parent.parent / "zeek" / "recordings"

_SENDERS_BYTES = 32
"""Endpoint ids of sender and receiver, in front of type, ttl, topic and value."""


def _frames(stream: bytes) -> list[bytes]:
    frames, position = [], 0
    while position < len(stream):
        size = int.from_bytes(stream[position : position + 4], "big")
        frames.append(stream[position + 4 : position + 4 + size])
        position += 4 + size
    return frames


def _data_messages(stream: bytes) -> list[tuple[str, bytes]]:
    found = []
    for frame in _frames(stream):
        envelope = frame[_SENDERS_BYTES:]
        if envelope[:1] == b"\x01" and frame[:1] == b"\x11":  # the recorded ids begin with 11; no message of ours does
            topic_bytes = int.from_bytes(envelope[3:5], "big")
            found.append((envelope[5 : 5 + topic_bytes].decode(), envelope[5 + topic_bytes :]))
    return found


def values() -> dict[str, bytes]:
    stream = gzip.decompress((_RECORDINGS / "n01-low-connects-to-high.c2s.gz").read_bytes())
    prefix = "/test/server/"
    return {topic.removeprefix(prefix): body for topic, body in _data_messages(stream) if topic.startswith(prefix)}


class Attempt(NamedTuple):
    bodies: list[bytes]
    received: list[str]


def attempts() -> dict[str, Attempt]:
    found = {}
    for stream in json.loads((_RECORDINGS / "n04-handshake-errors.json").read_text()):
        bodies = [body for topic, body in _data_messages(bytes.fromhex(stream["c2s"])) if topic == "/a/x"]
        if bodies:
            what = stream["what"].removeprefix("full handshake, ")
            received = [line.partition("/a/x, ")[2].removesuffix(")") for line in stream["received"]]
            found[what] = Attempt(bodies, received)
    return found


def server_messages() -> dict[str, bytes]:
    messages = {}
    for line in (_RECORDINGS / "w01-all-types-server-to-client.jsonl").read_text().splitlines():
        step = json.loads(line)
        if step.get("dir") == "server" and step.get("op") == 1:
            text = step["text"].encode() if "text" in step else bytes.fromhex(step["hex"])
            if b'"data-message"' in text:
                kind = text.partition(b'"topic":"/test/')[2].partition(b'"')[0].decode()
                messages[kind] = text
    return messages


class Case(NamedTuple):
    """A message of a client and what came of it.

    Attributes:
        text: The JSON text.
        context: What follows `input #N ` in the reply, None if the message was taken.
        received: The text form of what arrived, None if nothing did or the recording cut it.
    """

    text: bytes
    context: str | None
    received: str | None


def _context(reply: str) -> str:
    context: str = json.loads(reply)["context"]
    return context.split(" ", 2)[2]


def _received(lines: list[str]) -> str | None:
    line = lines[0] if lines else ""
    complete = line.startswith("recv data(/up, ") and line.endswith(")")
    return line.removeprefix("recv data(/up, ")[:-1] if complete else None


def client_values() -> dict[str, Case]:
    cases = {}
    for result in json.loads((_RECORDINGS / "w02-results.json").read_text()):
        if result["sent"] is not None:
            replies = [reply for reply in result["ws_reply"] if isinstance(reply, str)]
            context = _context(replies[0]) if replies else None
            cases[result["case"]] = Case(result["sent"].encode(), context, _received(result["endpoint_received"]))
    return cases


def client_faults() -> dict[str, Case]:
    replies = {}
    for result in json.loads((_RECORDINGS / "w03-results.json").read_text()):
        if result["connection"] != "open":
            continue  # the WebSocket itself was misused
        errors = [text for text in result["frames_from_server"] if isinstance(text, str) and '"error"' in text]
        replies[result["case"]] = errors[0] if errors else None
    cases = {}
    for name, text in _first_messages().items():
        if name in replies:
            reply = replies[name]
            cases[name] = Case(text, _context(reply) if reply else None, None)
    return cases


def _first_messages() -> dict[str, bytes]:
    messages: dict[str, bytes] = {}
    name, open_parts, texts = "", b"", 0
    for line in (_RECORDINGS / "w03-error-cases.jsonl").read_text().splitlines():
        step = json.loads(line)
        if "session" in step:
            name, open_parts, texts = step["session"], b"", 0
        elif step.get("dir") == "client" and step.get("op") in (0, 1) and "rsv" not in step:
            open_parts += step["text"].encode() if "text" in step else bytes.fromhex(step["hex"])
            if step["fin"]:
                texts += 1
                if texts == 2 and not name.startswith("first:") and b" bytes>" not in open_parts:
                    messages[name] = open_parts
                open_parts = b""
    return messages


_I64 = st.integers(-(1 << 63), (1 << 63) - 1)
_TEXTS = st.one_of(st.text(max_size=20), st.binary(max_size=20).map(lambda raw: raw.decode(errors="surrogateescape")))
_V4_NETWORKS = st.tuples(st.integers(0, (1 << 32) - 1), st.integers(0, 32)).map(lambda v: IPv4Network(v, strict=False))
_V6_NETWORKS = st.tuples(st.integers(0, (1 << 128) - 1), st.integers(0, 128)).map(
    lambda v: IPv6Network(v, strict=False)
)

SCALARS: st.SearchStrategy[Value] = st.one_of(
    st.none(),
    st.booleans(),
    _I64,
    st.integers(0, (1 << 64) - 1).map(Count),
    st.floats(),
    _TEXTS,
    st.ip_addresses(v=4),
    st.ip_addresses(v=6).filter(lambda address: isinstance(address, IPv6Address) and address.ipv4_mapped is None),
    _V4_NETWORKS,
    _V6_NETWORKS.filter(lambda network: network.network_address.ipv4_mapped is None),
    st.builds(Port, st.integers(0, 65535), st.sampled_from(["?", "tcp", "udp", "icmp"])),
    _I64.map(Timestamp),
    _I64.map(Timespan),
    _TEXTS.map(Enum),
)

VALUES: st.SearchStrategy[Value] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(tuple),
        st.lists(inner, max_size=4).map(Set),
        st.lists(st.tuples(inner, inner), max_size=4).map(Table),
    ),
    max_leaves=12,
)


def mutations(body: bytes, chance: random.Random) -> Iterator[bytes]:
    places = range(len(body)) if len(body) <= 300 else sorted(chance.sample(range(len(body)), 200))
    for place in places:
        yield body[:place]
        yield body[:place] + bytes((chance.randrange(256),)) + body[place + 1 :]
        yield body[:place] + bytes((body[place] ^ 1 << chance.randrange(8),)) + body[place + 1 :]
        yield body[:place] + body[place + 1 :]
