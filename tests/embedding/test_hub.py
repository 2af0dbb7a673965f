"""A hub inside a program: its clients have what clients over a network have, and leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from hub.errors import CloseCode, ClosedError, RejectedError, UsageError
from hub.settings.keys import ConfigError
from peers.client import Message, connect
from peers.connections.listener import ListenError
from peers.embedding import BlockingHub, Hub
from tests.forked.servers import python_path

NAME = "org.example.Door"


async def test_lines_go_to_the_logger_of_the_program(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "peers")
    async with Hub() as hub, hub.connect(name="me") as client:
        await client.publish("/a", 1)
    text = caplog.text
    assert "connection closed" in text
    assert "name='me'" in text


async def test_all_that_remote_clients_have(tmp_path: Path) -> None:
    async with (
        Hub(journal=tmp_path / "journal", name="inside", settings={"journal": {"topics": ["/kept/"]}}) as hub,
        hub.connect(name="one") as one,
        hub.connect(name="two") as two,
        two.subscribe_rule(["urgent"]) as urgent,
    ):
        async with (
            await one.claim(NAME),
            one.subscribe_name(NAME) as letters,
            one.serve("/twice", lambda it: 2 * it.value),
        ):
            assert [known.name for known in await two.names()] == [NAME]
            await two.publish("/letter", "to you", to=NAME)
            assert (await anext(letters)).value == "to you"
            await one.publish("/door", "open", ["urgent", "door"], sender=NAME)
            heard = await anext(urgent)
            assert (heard.labels, heard.sender) == (("door", "urgent"), NAME)
            assert await two.request("/twice", 21) == 42
            assert await two.request_many("/twice", [1, 2]) == [2, 4]
        offsets = [await one.publish_confirmed("/kept/a", number) for number in range(3)]
        assert [record.offset async for record in two.read("/kept/", start=offsets[0])] == offsets
        async with two.subscribe("/kept/", from_offset=offsets[1]) as messages:
            assert [(await anext(messages)).value for _ in range(2)] == [1, 2]
            await one.publish("/kept/a", 3)
            assert (await anext(messages)).value == 3
        block = await one.allocate(3)
        block.memory[:] = b"abc"
        async with two.subscribe("/block") as blocks:
            await one.publish("/block", block)
            assert (await anext(blocks)).value == b"abc"


async def test_others_reach_it_too() -> None:
    async with Hub(["tcp://127.0.0.1:0", "ws://127.0.0.1:0"]) as hub, hub.connect() as inside:
        for url in hub.listening:
            async with connect(url) as outside, outside.subscribe("/in") as heard, inside.subscribe("/out") as told:
                await inside.publish("/in", url)
                assert (await anext(heard)).value == url
                await outside.publish("/out", url)
                assert (await anext(told)).value == url


async def test_threads() -> None:
    async with Hub() as hub, hub.connect() as client, client.subscribe("/") as messages:
        with pytest.raises(UsageError, match=r"use `hub.connect\(\)` here"):
            hub.connect_blocking()

        def publish() -> None:
            with hub.connect_blocking(name="thread") as threads:
                threads.publish("/thread", 1)
                threads.drain()

        async def elsewhere() -> None:
            async with hub.connect(name="loop") as other:
                await other.publish("/loop", 2)

        await asyncio.to_thread(publish)
        await asyncio.to_thread(lambda: asyncio.run(elsewhere()))
        got = [await anext(messages) for _ in range(2)]
        assert got == [Message("/thread", 1), Message("/loop", 2)]


async def test_the_hub_stops() -> None:
    hub = Hub()
    with pytest.raises(UsageError, match="start the hub first: `async with Hub"):
        hub.connect()
    await hub.start()
    with pytest.raises(UsageError, match="started once"):
        await hub.start()
    client = await hub.connect()
    messages = client.subscribe("/a")
    await messages.open()
    blocking = await asyncio.to_thread(hub.connect_blocking)
    await client.publish("/a", "last")
    assert (await anext(messages)).value == "last"
    await hub.stop()
    await hub.stop()
    with pytest.raises(RejectedError, match="the hub of this process has stopped") as caught:
        await anext(messages)
    assert caught.value.code == CloseCode.GOING_AWAY
    with pytest.raises(RejectedError):
        await client.wait_closed()
    with pytest.raises(RejectedError):
        await hub.connect()
    with pytest.raises(RejectedError):
        await asyncio.to_thread(blocking.wait_closed, timeout_s=60)
    with pytest.raises(RejectedError):
        await asyncio.to_thread(hub.connect_blocking)
    await asyncio.to_thread(blocking.close)
    await client.close()


def left() -> tuple[int, int]:
    threads = [each for each in threading.enumerate() if not each.name.startswith("asyncio")]
    return len(list(Path("/proc/self/fd").iterdir())), len(threads)


async def test_nothing_is_left_behind() -> None:
    async with Hub("tcp://127.0.0.1:0") as hub, hub.connect():
        pass  # what is made once in a process is made
    before, tasks = left(), len(asyncio.all_tasks())
    for _ in range(3):
        async with Hub("tcp://127.0.0.1:0") as hub, hub.connect() as client, client.subscribe("/a") as messages:
            await client.publish("/a", 1)
            await anext(messages)
    await asyncio.sleep(0)
    assert (left(), len(asyncio.all_tasks())) == (before, tasks)


def test_a_hub_of_a_program_has_no_workers() -> None:
    with pytest.raises(ConfigError, match="settings: workers: a hub inside a program is in its process alone"):
        Hub(settings={"workers": 2})


def test_bad_arguments() -> None:
    with pytest.raises(ConfigError, match=r"argument: listen: 'nowhere'"):
        Hub("nowhere")
    with pytest.raises(ConfigError, match=r"settings: queue.messages"):
        BlockingHub(settings={"queue": {"messages": -1}})
    with pytest.raises(ConfigError, match=r"settings: quue"):
        Hub(settings={"quue": {"messages": 1}})


async def test_what_lies_around_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hub.toml").write_text("this is no TOML")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HUB_LISTEN", "nonsense")
    async with Hub() as hub, hub.connect():
        assert hub.listening == []


async def test_settings() -> None:
    settings: dict[str, object] = {"name": "other", "limits": {"connections": 1}, "listen": ["tcp://127.0.0.1:0"]}
    async with Hub(name="mine", settings=settings) as hub, hub.connect() as client:
        assert client.hub is not None
        assert client.hub.name == "mine"
        assert len(hub.listening) == 1
        with pytest.raises(Exception, match="1 connections are open, which is the limit"):
            await hub.connect(reconnect=False)


def test_without_an_event_loop() -> None:
    before = set(threading.enumerate())
    with BlockingHub("tcp://127.0.0.1:0") as hub, hub.connect() as client, client.subscribe("/a") as messages:
        client.publish("/a", 1, ["x"])
        assert messages.receive(timeout_s=60) == ("/a", 1)
        with pytest.raises(ListenError, match="in use"), BlockingHub(hub.listening[0]):
            pass
        with pytest.raises(UsageError, match="started once"):
            hub.start()
    with pytest.raises(RejectedError):
        hub.connect()
    with pytest.raises(UsageError, match="start the hub first: `with BlockingHub"):
        BlockingHub().connect()
    with pytest.raises((ClosedError, RejectedError)):
        client.publish("/a", 1)
    hub.stop()
    assert set(threading.enumerate()) <= before


QUIET = """
import asyncio
from peers.embedding import Hub

async def main():
    async with Hub("tcp://127.0.0.1:0") as hub, hub.connect() as client:
        await client.publish("/a", 1)

asyncio.run(main())
print("mine")
"""


def test_a_program_keeps_its_output() -> None:
    environment: dict[str, Any] = os.environ | python_path()
    command = [sys.executable, "-W", "error", "-c", QUIET]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("mine\n", "")


async def test_strangers_stay_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they could come they need a token, as with `hub run`; clients of this process may do everything."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with Hub(listen=["tcp://0.0.0.0:0"]) as hub, hub.connect() as client:
        url = hub.listening[0].replace("0.0.0.0", "127.0.0.1")
        with pytest.raises(RejectedError, match="not recognised"):
            async with connect(url):
                pass
        token = await asyncio.to_thread((tmp_path / "topichub" / "admin-token").read_text)
        async with connect(url, token=token.strip()) as other, client.subscribe("/a") as messages:
            await other.publish("/a", 1)
            assert (await anext(messages)).value == 1
        async with client.subscribe("$hub/") as messages:
            assert (await anext(messages)).topic.startswith("$hub/")


PAGE = Path(__file__).parents[2] / "docs" / "embedding.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_document(block: str) -> None:
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(block, "docs/embedding.md", "exec"), names)  # noqa: S102
    result = names["main"]()
    if result is not None:
        asyncio.run(result)
