"""What a client shows for who it is: asked anew for each connection, renewed in one that goes on, and never seen."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hub.errors import CloseCode, ConnectionLostError, PeerError, RejectedError, UsageError
from peers.client import Client, Hello, connect
from peers.client.token_source import Token, TokenSource, read_token
from peers.connections.connection import Connection as HubConnection
from peers.wire.control import TOKEN_LIMIT_BYTES, Notice, Renewal, decode_token, encode_close, encode_notice
from peers.wire.kinds import Kind
from tests.client.scripted import ScriptedHub, Told
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.known_tokens import KnownTokens

SECRET = "hub_c2VjcmV0"

UNKNOWN = encode_close(CloseCode.NOT_RECOGNISED, "not recognised")


class Tokens:
    def __init__(self) -> None:
        self.given: list[str] = []
        self.raises: Exception | None = None

    def plain(self) -> str:
        if self.raises is not None:
            raise self.raises
        self.given.append(f"{SECRET}{len(self.given) + 1}")
        return self.given[-1]

    async def later(self) -> str:
        await asyncio.sleep(0)
        return self.plain()


async def opened(url: str, token: Token) -> Client:
    return await connect(url, token=token)


async def shown(hub: ScriptedHub) -> str:
    return Hello.decode((await hub.next(Kind.HELLO)).body).token


async def renewed(hub: ScriptedHub) -> Renewal:
    return decode_token((await hub.next(Kind.TOKEN)).body)


@pytest.mark.parametrize("kind", ["plain", "later"])
async def test_a_function_is_asked_for_each_connection(scripted: ScriptedHub, kind: str) -> None:
    tokens = Tokens()
    told = Told()
    async with told.connect(scripted.url, token=getattr(tokens, kind)):
        for number in range(1, 4):
            assert await shown(scripted) == f"{SECRET}{number}"
            await told.connected.get()
            scripted.hang_up()
            await told.disconnected.get()
        await told.connected.get()
    assert len(tokens.given) == 4


async def test_a_text_is_said_again(scripted: ScriptedHub) -> None:
    """A token that is a text is shown at each connection, and never renewed: there is nothing to renew it with."""
    scripted.hello = msgspec.structs.replace(scripted.hello, until=0.0)
    told = Told()
    async with told.connect(scripted.url, token=SECRET):
        for _ in range(2):
            await told.connected.get()
            assert await shown(scripted) == SECRET
            scripted.hang_up()
        await told.connected.get()
    kinds = {scripted.frames.get_nowait().kind for _ in range(scripted.frames.qsize())}
    assert Kind.TOKEN not in kinds


@pytest.mark.parametrize("error", [ValueError(SECRET), OSError(SECRET), ConnectionLostError(1006, SECRET)])
async def test_a_function_that_fails(scripted: ScriptedHub, error: Exception) -> None:
    tokens = Tokens()
    tokens.raises = error
    with pytest.raises(ConnectionLostError, match=f"has failed with {type(error).__name__}") as raised:
        await connect(scripted.url, token=tokens.later)
    assert raised.value.__cause__ is error
    assert SECRET not in str(raised.value)
    assert scripted.connections == 0


async def test_a_function_that_fails_for_a_while(scripted: ScriptedHub, caplog: pytest.LogCaptureFixture) -> None:
    tokens = Tokens()
    told = Told()
    async with told.connect(scripted.url, token=tokens.plain):
        await told.connected.get()
        tokens.raises = OSError(SECRET)
        scripted.hang_up()
        await told.disconnected.get()
        await eventually(lambda: "has failed with OSError" in caplog.text)
        tokens.raises = None
        await told.connected.get()
    assert SECRET not in caplog.text


BAD_TOKENS: dict[str, Any] = {
    "a number": 7,
    "nothing": None,
    "bytes": SECRET.encode(),
    "half a pair": SECRET + "\ud800",
    "huge": SECRET * TOKEN_LIMIT_BYTES,
}


@pytest.mark.parametrize("token", BAD_TOKENS.values(), ids=BAD_TOKENS.keys())
async def test_what_is_no_token(scripted: ScriptedHub, token: Any) -> None:
    """As an option it is a mistake of the caller; from a function it is a failure of it. No text holds it."""
    with pytest.raises(UsageError, match="token") as misused:
        connect(scripted.url, token=token)
    with pytest.raises(ConnectionLostError, match="has given something else") as failed:
        await connect(scripted.url, token=lambda: token)
    assert SECRET not in f"{misused.value}{failed.value}{failed.value.__cause__}"
    assert scripted.connections == 0


# Renewal.


async def test_a_token_is_renewed_while_the_connection_goes_on(scripted: ScriptedHub) -> None:
    tokens = Tokens()
    scripted.hello = msgspec.structs.replace(scripted.hello, until=0.01)
    async with connect(scripted.url, token=tokens.later) as client:
        numbers = set()
        for number in range(2, 5):
            renewal = await renewed(scripted)
            assert renewal.token == f"{SECRET}{number}"
            numbers.add(renewal.request)
            scripted.send(encode_notice(Notice("confirmed", request=renewal.request, until=0.01)))
        assert len(numbers) == 3
        last = await renewed(scripted)
        scripted.send(encode_notice(Notice("confirmed", request=last.request)))  # this one holds for good
        assert client.statistics().connections == 1
    assert len(tokens.given) == 5
    assert scripted.connections == 1


@pytest.mark.parametrize("loss", ["refused", "the function fails"])
async def test_a_renewal_that_fails_is_told(scripted: ScriptedHub, loss: str, caplog: pytest.LogCaptureFixture) -> None:
    tokens = Tokens()
    told = Told()
    scripted.hello = msgspec.structs.replace(scripted.hello, until=0.01)
    async with told.connect(scripted.url, token=tokens.plain) as client:
        await told.connected.get()
        if loss == "refused":
            renewal = await renewed(scripted)
            refusal = Notice("error", request=renewal.request, code=CloseCode.NOT_RECOGNISED, text="not recognised")
            scripted.send(encode_notice(refusal))
        else:
            tokens.raises = OSError(SECRET)
        error: PeerError = await told.rejected.get()
        assert ("not recognised" if loss == "refused" else "OSError") in error.text
        assert client.statistics().connected
    assert "the token was not renewed" in caplog.text
    assert SECRET not in caplog.text


# A hub that does not know the client.


@pytest.mark.parametrize("is_text", [True, False])
async def test_a_hub_that_does_not_know_it(scripted: ScriptedHub, *, is_text: bool) -> None:
    """A function is asked once more, a text is not."""
    scripted.answers = False
    task = asyncio.create_task(opened(scripted.url, SECRET if is_text else Tokens().plain))
    expected = [SECRET] if is_text else [f"{SECRET}1", f"{SECRET}2"]
    for token in expected:
        assert await shown(scripted) == token
        scripted.send(UNKNOWN)
    with pytest.raises(RejectedError, match=r"not recognised \(4401\)"):
        await task
    assert scripted.connections == len(expected)


async def test_the_end_of_a_token_of_a_function(scripted: ScriptedHub) -> None:
    """4401 of a running connection: it is made again, with a fresh token. 4403: it is not, as no token changes that."""
    tokens = Tokens()
    told = Told()
    async with told.connect(scripted.url, token=tokens.plain) as client:
        await told.connected.get()
        scripted.send(UNKNOWN)
        await told.disconnected.get()
        await told.connected.get()
        assert tokens.given[-1] == f"{SECRET}2"
        scripted.send(encode_close(CloseCode.FORBIDDEN, "you are gone"))
        with suppress(RejectedError):
            await client.wait_closed()
        assert isinstance(client._exchange.ended, RejectedError)
    assert scripted.connections == 2


# With a hub, over each transport, and from threads.


async def test_a_hub_takes_a_fresh_token(start_hub: StartHub, listen_url: str) -> None:
    known = KnownTokens(await start_hub(listen_url))
    given: list[str] = []

    def fresh() -> str:
        given.append(known.token("alice", seconds=None if given else 0.5))
        return given[-1]

    async with connect(known.hub.url, token=fresh) as client, client.subscribe("/a") as messages:
        (connection,) = known.hub.server.connections
        assert isinstance(connection, HubConnection)
        await eventually(lambda: connection.proof_left_s() == math.inf)
        known.hub.later(5.0)
        client.publish_nowait("/a", 1)
        assert (await anext(messages)).value == 1
        assert client.statistics().connections == 1
    assert len(given) == 2


@pytest.mark.parametrize("content", [SECRET, f"{SECRET}\n", f"  {SECRET} \r\n\n"])
def test_one_line(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    assert read_token(str(file)) == SECRET


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        f"{SECRET}\n{SECRET}".encode(),
        SECRET.encode() + b"\xff",
        SECRET.encode() + b"\0",
        SECRET.encode() * TOKEN_LIMIT_BYTES,
    ],
    ids=["empty", "an empty line", "two lines", "not UTF-8", "a NUL", "huge"],
)
def test_no_token(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="holds no token: one line of text is expected") as refused:
        read_token(str(file))
    assert str(file) in str(refused.value)
    assert SECRET not in str(refused.value)


async def test_blanks_around_a_token_are_no_part_of_it() -> None:
    for token in (f"{SECRET}\n", lambda: f" {SECRET}\r\n"):
        assert await TokenSource(token, 60, print).fresh() == SECRET


@pytest.mark.parametrize("path", ["/nowhere/token", "/", "a\0b"])
def test_no_file(path: str) -> None:
    with pytest.raises(UsageError, match="cannot be read: "):
        read_token(path)


async def test_a_function_that_takes_too_long() -> None:
    async def never() -> str:
        await asyncio.get_running_loop().create_future()
        return SECRET

    with pytest.raises(ConnectionLostError, match=r"none within 0\.01 s"):
        await TokenSource(never, 0.01, print).fresh()


async def test_after_a_failure_it_is_tried_again(scripted: ScriptedHub) -> None:
    tokens = Tokens()
    told = Told()
    scripted.hello = msgspec.structs.replace(scripted.hello, until=1000.0)
    async with told.connect(scripted.url, token=tokens.plain) as client:
        renewal = client._exchange.tokens
        planned = renewal._timer
        assert planned is not None
        assert renewal._ends_s - 251.0 <= planned.when() <= renewal._ends_s - 149.0
        renewal._begin()
        first = await renewed(scripted)
        refusal = Notice("error", request=first.request, code=CloseCode.NOT_RECOGNISED, text="not recognised")
        scripted.send(encode_notice(refusal))
        await told.rejected.get()
        again = renewal._timer
        assert again is not None
        assert again.when() < planned.when()
        renewal._begin()
        second = await renewed(scripted)
        assert second.request != first.request
        assert second.token != first.token
