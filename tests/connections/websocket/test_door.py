"""Who comes in over WebSockets and HTTP: by a header, or by the first message."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from hub.errors import CloseCode, NotRecognisedError
from hub.handlers.handler import Handler
from peers.wire.control import TOKEN_LIMIT_BYTES
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.known_tokens import SECRET, KnownTokens
from tests.hubs.raw_websocket import RawWebSocket, request, text, upgrade
from tests.hubs.settings import settings_of

UNKNOWN = (4401, NotRecognisedError().text)


@pytest.fixture
async def hub(start_hub: StartHub) -> AsyncIterator[Hub]:
    hub = await start_hub()
    with capture_logs() as lines:
        yield hub
    assert SECRET not in str(lines)


@pytest.fixture
def known(hub: Hub) -> KnownTokens:
    return KnownTokens(hub)


def authorization(token: str) -> str:
    return f"Authorization: Bearer {token}"


async def shaken(hub: Hub, *lines: str) -> tuple[RawWebSocket, dict[str, object]]:
    client = await hub.raw_websocket()
    await client.shake_hands("hub.v1.json", *lines)
    welcome = await client.message()
    assert welcome["type"] == "welcome"
    return client, welcome


def user_of(handler: Handler) -> str:
    assert handler.rights is not None
    return handler.rights.user.name


# The header.


async def test_a_known_header(hub: Hub, known: KnownTokens) -> None:
    """Its user is known with the handshake, and charged from then on; `hello` needs no token."""
    client, welcome = await shaken(hub, authorization(known.token("alice", seconds=60.0)))
    assert isinstance(welcome["until"], float)
    assert 50.0 < welcome["until"] <= 60.0
    assert (welcome["user"], "anonymous" in welcome) == ("alice", False)
    assert hub.server.admission.newcomers == 0
    await client.say("hello", name="me")
    assert (await client.message())["until"] <= welcome["until"]
    assert user_of(hub.handler("me")) == "alice"


BAD_HEADERS = {
    "unknown": [authorization(SECRET)],
    "empty": ["Authorization: Bearer"],
    "blank": ["Authorization:   "],
    "Basic": [f"Authorization: Basic {SECRET}"],
    "no scheme": [f"Authorization: {SECRET}"],
    "two": [authorization(f"{SECRET}_alice_0")] * 2,
    "huge": [authorization("x" * 8000)],
    "Latin-1": [authorization(SECRET + "\u00e9")],
}


@pytest.mark.parametrize("lines", BAD_HEADERS.values(), ids=BAD_HEADERS.keys())
@pytest.mark.parametrize("path", ["/v1/hub", "/metrics"])
async def test_a_bad_header(hub: Hub, known: KnownTokens, path: str, lines: list[str]) -> None:
    for anonymous in ("", "sensor"):
        known = KnownTokens(hub, anonymous)
        known.token("alice")
        client = await hub.raw_websocket()
        is_plain = path == "/metrics"
        await client.send(request(path, "GET", *lines) if is_plain else upgrade("hub.v1.json", *lines, path=path))
        response = await client.response()
        if response.status == 400:  # a line that the library does not take at all: nobody is let in, either
            assert lines == BAD_HEADERS["huge"]
            continue
        assert (response.status, response.body.decode()) == (401, f"{UNKNOWN[1]}\n")
        assert response.headers["WWW-Authenticate"].startswith("Bearer")
        assert known.failures > 0


async def test_a_header_at_a_hub_without_users(hub: Hub) -> None:
    for line in ("Authorization: Basic Zm9vOmJhcg==", authorization(SECRET)):
        await shaken(hub, line)
    client = await hub.raw_websocket()
    await client.send(request("/metrics", "GET", authorization(SECRET)))
    assert (await client.response()).status == 200


@pytest.mark.parametrize("path", ["/v1/hub?token=", "/v1/hub?access_token=", "/metrics?token="])
async def test_a_token_in_the_url(hub: Hub, known: KnownTokens, path: str) -> None:
    token = known.token("alice")
    client = await hub.raw_websocket()
    if path.startswith("/metrics"):
        await client.send(request(path + token))
        assert (await client.response()).status == 401
        return
    await client.send(upgrade("hub.v1.json", path=path + token))
    await client.head()
    await client.message()
    await client.say("subscribe", prefixes=["/a"])
    assert await client.end() == UNKNOWN


# The first message.


FIRST = {
    "hello with another": {"type": "hello", "token": SECRET},
    "subscribe": {"type": "subscribe", "prefixes": ["/a"], "request": 1},
    "fetch": {"type": "fetch", "request": 1},
    "token before hello": {"type": "token", "token": SECRET, "request": 1},
}


@pytest.mark.parametrize("message", FIRST.values(), ids=FIRST.keys())
@pytest.mark.parametrize("delay_s", [0.0, 2.0])
async def test_a_stranger(hub: Hub, known: KnownTokens, message: dict[str, object], delay_s: float) -> None:
    token = known.token("alice")
    witness, _ = await shaken(hub, authorization(token))
    await witness.say("subscribe", prefixes=[""], request=1)
    await witness.message()
    known.answer_after(delay_s)
    client, _ = await shaken(hub)
    behind = [{"type": "publish", "topic": "/a", "value": "from a stranger"}, {"type": "hello", "token": token}]
    await client.send(text(message) + b"".join(map(text, behind)))
    await eventually(lambda: known.failures == 1)
    await client.send(text(behind[0]))
    hub.later(delay_s + 1)
    assert await client.end() == UNKNOWN
    assert await witness.barrier() == []
    assert len(hub.server.core.handlers) == 1


@pytest.mark.parametrize("anonymous", ["", "sensor"])
async def test_large_messages_of_strangers(start_hub: StartHub, anonymous: str) -> None:
    hub = await start_hub(settings=settings_of(handshake_bytes=4096, frame_bytes=100_000))
    token = KnownTokens(hub, anonymous).token("alice")
    large = {"type": "publish", "topic": "/a", "value": "x" * 5000, "request": 1}
    client, _ = await shaken(hub)
    await client.send(text(large)[:4500])
    assert (await client.end())[0] == CloseCode.TOO_BIG
    client, _ = await shaken(hub)
    await client.send(text({"type": "hello", "token": token}) + text(large))
    assert [(await client.message())["type"] for _ in range(2)] == ["welcome", "confirmed"]
    client, _ = await shaken(hub, authorization(token))
    await client.send(text(large))
    assert (await client.message())["type"] == "confirmed"


async def test_tokens_that_are_none(hub: Hub, known: KnownTokens) -> None:
    client, _ = await shaken(hub)
    for token in (7, None, ["x"], "x" * (TOKEN_LIMIT_BYTES + 1)):
        await client.say("hello", token=token)
        refused = await client.message()
        assert refused["type"] == "error"
        assert refused["code"] in {CloseCode.BAD_DATA, CloseCode.TOO_BIG}
    await client.say("hello", name="me", token=known.token("alice"))
    assert (await client.message())["type"] == "welcome"


async def test_somebody_who_says_nothing(hub: Hub, known: KnownTokens) -> None:
    known.token("alice")
    client, _ = await shaken(hub)
    assert await client.barrier() == []
    hub.later(6.0)
    code, why = await client.end()
    assert code == 4401
    assert "no token within" in why


async def test_nobody_in_particular(hub: Hub) -> None:
    known = KnownTokens(hub, anonymous="sensor")
    client, _ = await shaken(hub)
    assert hub.server.admission.newcomers == 1
    await client.say("hello", name="nobody")
    await client.message()
    assert user_of(hub.handler("nobody")) == "anonymous"
    other, _ = await shaken(hub)
    await other.say("hello", name="somebody", token=known.token("alice"))
    await other.message()
    assert user_of(hub.handler("somebody")) == "alice"
    wrong, _ = await shaken(hub)
    await wrong.say("hello", name="wrong", token=SECRET)
    assert await wrong.end() == UNKNOWN


# Zeek's JSON API.


async def test_zeeks_path(hub: Hub, known: KnownTokens) -> None:
    client = await hub.raw_websocket()
    await client.send(upgrade("", path="/v1/messages/json"))
    assert (await client.response()).status == 401
    client = await hub.raw_websocket()
    await client.send(upgrade("", authorization(known.token("alice")), path="/v1/messages/json"))
    assert b" 101 " in await client.head()
    await client.send(text(["/a"]))
    assert (await client.message())["type"] == "ack"
    (handler,) = hub.server.core.handlers.values()
    assert user_of(handler) == "alice"


# Plain HTTP.


@pytest.mark.parametrize(
    ("path", "status"),
    [("/", 200), ("/hub.js", 200), ("/healthz", 200), ("/readyz", 200), ("/metrics", 401), ("/other", 401)],
)
async def test_plain_http_without_a_token(hub: Hub, known: KnownTokens, path: str, status: int) -> None:
    for anonymous in ("", "sensor"):
        known = KnownTokens(hub, anonymous)
        client = await hub.raw_websocket()
        await client.send(request(path))
        response = await client.response()
        assert response.status == status
        assert ("WWW-Authenticate" in response.headers) is (status == 401)
        assert known.failures == 0


@pytest.mark.parametrize(
    ("user", "roles", "status"),
    [("alice", ("admin",), 200), ("watcher", (), 200), ("alice", (), 403), ("far", (), 403), ("bob", ("reader",), 403)],
)
async def test_metrics_are_for_those_who_may_hear_the_statistics(
    hub: Hub, known: KnownTokens, user: str, roles: tuple[str, ...], status: int
) -> None:
    client = await hub.raw_websocket()
    await client.send(request("/metrics", "GET", authorization(known.token(user, roles=roles))))
    response = await client.response()
    assert response.status == status
    assert (b"hub_quota" in response.body) is (status == 200)
    if status == 403:
        assert response.body == b"/metrics is for admins, and for users who may subscribe to $hub/statistics\n"
