"""The hub as a process: what it announces, how signals end and reload it, and how it fails to start."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from pathlib import Path

import pytest

from hub import twins
from hub.batch import decode_values
from hub.errors import CloseCode
from hub.frame import encode_frame
from peers.wire.control import decode_close
from peers.wire.hello import QueueWish
from peers.wire.kinds import Kind
from tests.daemon.conftest import Connect, StartProcess
from tests.daemon.hub_process import ROOT
from tests.hubs.raw_client import RawClient, numbered

TCP = ("--listen", "tcp://127.0.0.1:0")
ROOMY = ("--queue-messages", "1000000", "--queue-max-messages", "1000000")


@pytest.fixture
def is_new() -> bool:
    return True


async def test_it_says_where_it_is(start_process: StartProcess, connect: Connect, tmp_path: Path) -> None:
    unix = f"unix://{tmp_path}/hub.sock"
    process = await start_process(*TCP, "--listen", unix, "--listen", "ws://127.0.0.1:0", "--name", "north")
    hub = await process.wait_up(3)
    assert hub.name == "north"
    assert [endpoint.location for endpoint in hub.endpoints][1] == unix
    tcp, _, web = hub.endpoints
    assert tcp.port > 0
    assert hub.page == f"http://127.0.0.1:{web.port}/"
    for endpoint in hub.endpoints[:2]:
        client = await connect(endpoint, "/a")
        await client.publish("/a", 1)
        assert await client.values(1) == [("/a", 1)]


async def test_missing_twins_are_told_in_the_log(start_process: StartProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twins, "find_spec", lambda _: None)
    without = {"PYTHONPATH": f"{ROOT}:{ROOT}/tests/without", "WITHOUT": ",".join(twins.TWINS)}
    hub = await start_process("--listen", "tcp://127.0.0.1:0", "--log-format", "json", **without)
    assert (await (await hub.wait_up()).wait_logged(twins.remark()))["level"] == "warning"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it(start_process: StartProcess, connect: Connect, number: signal.Signals) -> None:
    hub = await (await start_process(*TCP)).wait_up()
    client = await connect(hub.endpoints[0])
    hub.signal(number)
    assert await client.end() == (CloseCode.GOING_AWAY, "the hub stops")
    client.close()
    code, log = await hub.wait_ended()
    assert code == 0
    assert '"level":"error"' not in log.replace(" ", "")
    assert "Traceback" not in log


async def test_a_signal_under_load(start_process: StartProcess, connect: Connect) -> None:
    hub = await (await start_process(*TCP, *ROOMY)).wait_up()
    slow = await connect(hub.endpoints[0], "/flood", receive_bytes=4096)
    publisher = await connect(hub.endpoints[0])
    total = 0
    for _ in range(20):
        await publisher.send(numbered("/flood", range(total, total + 500), padding=1000))
        await publisher.ping()
        total += 500
    hub.signal(signal.SIGTERM)
    assert await publisher.end() == (CloseCode.GOING_AWAY, "the hub stops")
    publisher.close()
    assert await slow.numbers_and_gaps(total) == list(range(total))
    assert await slow.end() == (CloseCode.GOING_AWAY, "the hub stops")
    slow.close()
    assert (await hub.wait_ended())[0] == 0


async def test_a_signal_while_publishers_go_on(start_process: StartProcess, connect: Connect) -> None:
    """Publishers that do not stop by themselves do not keep the hub; what a subscriber got has no hole."""
    hub = await (await start_process(*TCP, *ROOMY, "--limits-drain-s", "0.5")).wait_up()
    reader = await connect(hub.endpoints[0], "/flood")
    publisher = await connect(hub.endpoints[0])
    started = asyncio.Event()

    async def publish() -> int:
        sent = 0
        while True:
            try:
                await publisher.send(numbered("/flood", range(sent, sent + 100), padding=100))
                await asyncio.sleep(0)  # a socket that takes it all does not let others in
            except ConnectionError:
                return sent
            sent += 100
            if sent == 2000:
                started.set()

    publishing = asyncio.ensure_future(publish())
    await started.wait()
    hub.signal(signal.SIGTERM)
    expected = 0
    reason = None
    async for frame in reader.frames():
        if frame.kind == Kind.CLOSE:
            reason = decode_close(frame.body)
            continue
        assert frame.kind == Kind.MESSAGES, frame
        for number, _ in decode_values(frame):
            assert number == expected
            expected += 1
    assert reason == (CloseCode.GOING_AWAY, "the hub stops")
    reader.close()
    sent = await publishing
    assert 0 < expected <= sent + 100
    assert (await hub.wait_ended())[0] == 0


async def test_a_link_is_drained(start_process: StartProcess, connect: Connect) -> None:
    far = await (await start_process(*TCP, *ROOMY)).wait_up()
    near = await (await start_process(*TCP, *ROOMY, "--peer", far.endpoints[0].location)).wait_up()
    watcher = await connect(near.endpoints[0], "$hub/statistics")
    reader = await connect(far.endpoints[0], "/flood", "$hub/peer/left")
    linked = False
    while not linked:
        ((_, value),) = await watcher.values(1)
        linked = any(one["role"] == "link" and one["prefixes"] for one in value["some"])
    watcher.close()
    publisher = await connect(near.endpoints[0])
    await publisher.send(numbered("/flood", range(5000), padding=200))
    await publisher.ping()
    near.signal(signal.SIGTERM)
    assert await reader.numbers_and_gaps(5000) == list(range(5000))
    ((topic, left),) = await reader.values(1)
    assert (topic, left["reason"]) == ("$hub/peer/left", "the hub stops (1001)")
    publisher.close()
    assert (await near.wait_ended())[0] == 0


# Reloading.


async def granted(client: RawClient) -> QueueWish | None:
    hello = await client.greet()
    client.close()
    return hello.queue


async def test_a_hangup_reloads(start_process: StartProcess, connect: Connect, tmp_path: Path) -> None:
    config = tmp_path / "hub.toml"

    def write(text: str) -> None:
        config.write_text(text)

    write('listen = ["tcp://127.0.0.1:0"]\nqueue.messages = 11\n[log]\nformat = "json"\n')
    hub = await (await start_process("--config", str(config))).wait_up()
    (endpoint,) = hub.endpoints
    client = await connect(endpoint, "/a", name="witness")
    assert (await granted(await RawClient.connect(endpoint))) == QueueWish(11, 64 << 20, "drop-oldest")  # type: ignore[arg-type]

    write('listen = ["tcp://127.0.0.1:0"]\nname = "new"\nqueue.messages = 22\n[log]\nformat = "json"\n')
    hub.signal(signal.SIGHUP)
    assert (await hub.wait_logged("settings reloaded"))["needs_restart"] == ["name"]
    queue = await granted(await RawClient.connect(endpoint))
    assert queue is not None
    assert queue.messages == 22

    write("queue.messages = 33\nqueue.mesages = 44\n")
    hub.signal(signal.SIGHUP)
    line = await hub.wait_logged("settings not reloaded, the old ones stay")
    assert line["level"] == "error"
    assert "queue.mesages: unknown key" in line["reason"]
    queue = await granted(await RawClient.connect(endpoint))
    assert queue is not None
    assert queue.messages == 22

    config.unlink()
    hub.signal(signal.SIGHUP)
    line = await hub.wait_logged("settings not reloaded, the old ones stay")
    assert "there is no such file" in line["reason"]
    await client.publish("/a", 1)
    assert await client.values(1) == [("/a", 1)]


# Failing to start.


async def failure(start_process: StartProcess, *arguments: str, **variables: str) -> str:
    code, text = await (await start_process(*arguments, **variables)).wait_ended()
    assert code == 1
    assert text.startswith("hub: ")
    assert text.count("\n") == 1
    return text.strip()


async def test_a_socket_path_that_is_a_file(start_process: StartProcess, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("precious")
    assert "there is a file that is no socket" in await failure(start_process, "--listen", f"unix://{path}")
    assert path.read_text() == "precious"


async def test_a_config_that_cannot_be_used(start_process: StartProcess, tmp_path: Path) -> None:
    config = tmp_path / "bad.toml"
    config.write_text("[queue]\nmesages = 1\n")
    assert "queue.mesages: unknown key in [queue]; did you mean queue.messages?" in await failure(
        start_process, "--config", str(config)
    )
    assert "environment HUB_QUEUE_MESAGES: unknown variable" in await failure(start_process, HUB_QUEUE_MESAGES="1")
    assert "there is no such file" in await failure(start_process, "--config", str(tmp_path / "none.toml"))


async def test_a_socket_of_a_hub_that_was_killed(start_process: StartProcess, connect: Connect, tmp_path: Path) -> None:
    url = f"unix://{tmp_path}/hub.sock"
    first = await (await start_process("--listen", url)).wait_up()
    assert "another process listens there" in await failure(start_process, "--listen", url)
    await connect(first.endpoints[0])
    await first.kill()
    assert (tmp_path / "hub.sock").exists()
    second = await (await start_process("--listen", url)).wait_up()
    assert await (await connect(second.endpoints[0])).ping() == []


async def test_few_descriptors(start_process: StartProcess, connect: Connect) -> None:
    hub = await (await start_process(*TCP, "--log-format", "json", descriptors=67)).wait_up()
    line = await hub.wait_logged("fewer connections than set")
    assert (line["limit"], line["set"], line["nofile"]) == (2, 10_000, 67)
    clients = [await connect(hub.endpoints[0]) for _ in range(2)]
    third = await RawClient.connect(hub.endpoints[0])
    assert await third.end() == (CloseCode.TRY_AGAIN_LATER, "2 connections are open, which is the limit")
    third.close()
    assert [await client.ping() for client in clients] == [[], []]


async def test_a_flood_of_silent_strangers(start_process: StartProcess, connect: Connect) -> None:
    arguments = (*TCP, "--listen", "ws://127.0.0.1:0", "--log-format", "json")
    hub = await (await start_process(*arguments, descriptors=160)).wait_up(2)
    served = await connect(hub.endpoints[0])
    with contextlib.ExitStack() as stack:
        for number in range(400):
            where = hub.endpoints[number % 2]
            stack.enter_context(socket.create_connection((where.host, where.port)))
        with socket.create_connection((hub.endpoints[1].host, hub.endpoints[1].port)) as asking:
            asking.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert asking.recv(100).startswith(b"HTTP/1.1 200 ")
        assert await served.ping() == []
        assert await (await connect(hub.endpoints[0])).ping() == []


async def test_bad_input_does_not_reach_the_log_as_it_is(start_process: StartProcess, connect: Connect) -> None:
    hub = await (await start_process(*TCP, "--log-format", "json")).wait_up()
    client = await connect(hub.endpoints[0], name='x\n{"event":"forged"}\x1b[2J')
    line = await hub.wait_logged("client connected")
    assert line["name"] == 'x\n{"event":"forged"}\x1b[2J'
    await client.send(encode_frame(99, b""))
    await client.end()
    client.close()
    assert (await hub.wait_logged("connection closed"))["reason"] == "unknown kind 99 (1002)"
    assert not [line for line in hub.log if line["event"] == "forged"]
