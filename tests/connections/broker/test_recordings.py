"""The hub as a whole against peers that play what real endpoints have said, over real sockets, with TLS and without."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from hub.messages.frame import KIND_MESSAGES, encode_frame
from hub.settings.settings import Settings, ZeekSettings
from peers.connections.zeek_diallers import tls_client_context
from peers.values import decode, to_text
from peers.zeek.broker.messages import NIL_ID, EnvelopeType, encode_envelope
from tests.connections.broker.conftest import PLAIN, StartHub
from tests.connections.broker.scripted import LOW, Endpointlike, ZeekHub
from tests.connections.test_tls import certified
from tests.hubs.eventually import eventually
from tests.hubs.raw_client import RawClient
from tests.zeek.broker.recorded import HIGH, connection, errors, framed

SOME = {0, 8, 12, 16, 20, 24, 28, 32, 36, 38, 39}
"""What the session answers to all of them is compared in `tests/zeek/broker`."""

CLOSED_HERE = {12, 13}
"""Where the recorded endpoint waited for the rest of a frame that it would not have taken: the hub closes at once."""


async def texts(reader: RawClient, count: int) -> list[str]:
    got: list[str] = []
    async for frame in reader.frames():
        got.append(f"recv data({frame.key.decode()}, {to_text(decode(frame.body))})")
        if len(got) == count:
            break
    return got


@pytest.mark.parametrize(
    "case", [case for case in errors() if case["stream"] in SOME], ids=lambda case: f"{case['stream']}: {case['what']}"
)
async def test_all_that_is_wrong(hub: ZeekHub, case: dict[str, Any]) -> None:
    reader = await hub.client("/a")
    far = await Endpointlike.connect(hub.zeek_endpoint)
    far.write(bytes.fromhex(case["c2s"]))
    if "half-close" in case["what"]:
        far.write_eof()
    answer = bytes.fromhex(case["s2c"])
    if case["stream"] in CLOSED_HERE:
        assert (await far.everything()).startswith(answer)
    else:
        assert await far.exactly(len(answer)) == answer
        if case["afterwards"] == "closed":
            assert await far.everything() == b""
        else:
            assert hub.zeeks[0] in hub.server.connections
            assert not hub.zeeks[0].reason
    far.close()
    good = [line for line in case["received"] if line.startswith("recv data")]
    assert await texts(reader, len(good)) == good if good else True
    await eventually(lambda: hub.zeeks[0] not in hub.server.connections)


TLS = {
    "plain": (PLAIN, ZeekSettings(), None),
    "anonymous": ("zeek://127.0.0.1:0", ZeekSettings(), ZeekSettings()),
    "certificates": ("zeek://127.0.0.1:0", certified("hub"), certified("zeek")),
}


@pytest.mark.parametrize("mode", TLS)
async def test_a_whole_conversation(start_hub: StartHub, mode: str) -> None:
    url, settings, far_settings = TLS[mode]
    hub = await start_hub(url, settings=Settings(zeek=settings))
    recorded = connection("n01-low-connects-to-high")
    theirs, ours = recorded["connector"], recorded["acceptor"]
    reader, publisher = await hub.client("/test/server"), await hub.client()
    context: ssl.SSLContext | None = tls_client_context(far_settings) if far_settings is not None else None
    far = await Endpointlike.connect(hub.zeek_endpoint, LOW, tls=context)
    far.write(*map(framed, theirs.handshake))
    handshake = b"".join(map(framed, ours.handshake))
    assert await far.exactly(len(handshake)) == handshake
    far.hub_id = HIGH

    sent = [each for each in theirs.of_type(EnvelopeType.DATA) if each.topic.startswith(b"/test/server")]
    far.write(*map(encode_envelope, sent))
    got = []
    async for frame in reader.frames():
        got.append((frame.key, frame.body))
        if len(got) == len(sent):
            break
    assert got == [(each.topic, each.payload) for each in sent]

    wanted = theirs.filter
    due = [
        each
        for each in ours.of_type(EnvelopeType.DATA)
        if each.receiver == NIL_ID and each.topic.decode().startswith(wanted)
    ]
    assert len(due) > 50
    await publisher.send(*(encode_frame(KIND_MESSAGES, each.payload, key=each.topic, flags=0b10) for each in due))
    bytes_due = b"".join(map(encode_envelope, due))
    assert await far.exactly(len(bytes_due)) == bytes_due

    goodbye = theirs.of_type(EnvelopeType.PING)[-1]
    far.write(encode_envelope(goodbye))
    pong = encode_envelope(ours.of_type(EnvelopeType.PONG)[-1])
    assert await far.exactly(len(pong)) == pong
    far.close()
    await eventually(lambda: hub.zeeks[0] not in hub.server.connections)
