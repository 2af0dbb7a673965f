"""All processes are asked; who is gone or silent is left out. Pairs of sockets in the test stand for workers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from hub.errors import ConnectionLostError, HubError, UsageError
from hub.requests.hub_services import Later
from hub.settings.settings import Settings
from peers.node.node import Node
from peers.node.whole import awaited
from peers.workers import gathering
from peers.workers.control import Control, Functions
from peers.workers.gathering import FromWorker, Gathering
from peers.workers.merging import WorkerCounts, plain

Join = Callable[[Functions, Functions], Any]


@pytest.fixture
async def join() -> AsyncIterator[Join]:
    made: list[Control] = []

    async def join(here: Functions, there: Functions) -> tuple[Control, Control]:
        controls = Control(here), Control(there)
        for control, sock in zip(controls, socket.socketpair(), strict=True):
            sock.setblocking(False)
            await asyncio.get_running_loop().create_unix_connection(lambda control=control: control, sock=sock)
            made.append(control)
        return controls

    yield join
    for control in made:
        control.close()
        await control.lost


def fail(_: Any) -> Any:
    raise UsageError("there is nobody")


async def test_both_ends_may_ask(join: Join) -> None:
    slow = Later()
    one, other = await join({"double": lambda value: value * 2}, {"fail": fail, "slow": lambda _: slow})
    assert await other.ask("double", [1, "a"]) == [1, "a", 1, "a"]
    waiting = one.ask("slow")
    with pytest.raises(UsageError, match="there is nobody"):
        await one.ask("fail")
    slow.give({"a": b"bytes"})
    assert await waiting == {"a": b"bytes"}


async def test_a_bug_ends_nothing(join: Join) -> None:
    one, _ = await join({}, {"bug": lambda _: 1 // 0, "ok": lambda _: 1})
    with pytest.raises(UsageError, match="a bug of the hub"):
        await one.ask("bug")
    assert await one.ask("ok") == 1


async def test_an_end_that_is_gone(join: Join) -> None:
    one, other = await join({}, {"never": lambda _: Later()})
    waiting = one.ask("never")
    other.close()
    await one.lost
    one.tell("anything")
    for asked in (waiting, one.ask("never")):
        with pytest.raises(ConnectionLostError):
            await asked


@pytest.fixture
async def node() -> Node:
    return Node(Settings(), name="core")


def all_of(node: Node, *controls: Control) -> Gathering:
    counts = WorkerCounts(len(controls), len(controls), 0, 0, 0)
    found = Gathering(node, lambda: enumerate(controls, 1), lambda silent: counts._replace(silent_total=silent))
    found.parts.functions["kick"] = lambda _by, value: fail(value)
    return found


async def test_one_answer_suffices(node: Node, join: Join) -> None:
    one, _ = await join({}, {"part": lambda _: {"kicked": 2}})
    other, _ = await join({}, {"part": fail})
    assert await awaited(all_of(node, one, other).ask("kick", {"user": "ada"})) == {"kicked": 2}
    with pytest.raises(HubError, match="there is nobody"):
        await awaited(all_of(node, other).ask("kick", {"user": "ada"}))


async def test_who_is_silent_is_left_out(node: Node, join: Join, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "ANSWER_S", 0.01)
    one, _ = await join({}, {"part": lambda _: {"kicked": 2}})
    silent, _ = await join({}, {"part": lambda _: Later()})
    gone, far = await join({}, {})
    far.close()
    await gone.lost
    whole = all_of(node, one, silent, gone)
    assert await awaited(whole.ask("kick", {"user": "ada"})) == {"kicked": 2}
    assert whole.silent_total == 1
    one.close()
    await one.lost
    assert b"hub_workers_silent_total 2.0" in await awaited(all_of_metrics(whole))


async def test_histograms_of_all_processes(node: Node, join: Join) -> None:
    far = Node(Settings(), name="worker")
    far.queue_times.observe(0.3)
    one, _ = await join({}, {"part": lambda _: plain(far)})
    told = await awaited(all_of_metrics(all_of(node, one)))
    assert b'hub_queue_seconds_bucket{le="0.25",worker="1"} 0.0' in told
    assert b'hub_queue_seconds_bucket{le="0.5",worker="1"} 1.0' in told
    assert b'hub_queue_seconds_bucket{le="0.5",worker="core"} 0.0' in told
    assert told.count(b"# TYPE hub_queue_seconds histogram") == 1


async def test_why_a_hub_is_not_ready(node: Node, join: Join, monkeypatch: pytest.MonkeyPatch) -> None:
    ready, _ = await join({}, {"part": lambda _: ""})
    starting, _ = await join({}, {"part": lambda _: "the hub is starting"})
    silent, _ = await join({}, {"part": lambda _: Later()})
    assert await awaited(all_of(node, ready).ask("ready")) == "the hub is starting"
    node.ready = True
    assert await awaited(all_of(node, ready).ask("ready")) == ""
    assert await awaited(all_of(node, ready, starting).ask("ready")) == "worker 2: the hub is starting"
    monkeypatch.setattr(gathering, "ANSWER_S", 0.5)  # in which the one that is ready answers, on a busy machine, too
    assert await awaited(all_of(node, ready, silent).ask("ready")) == "1 of 2 workers serve"


async def test_a_core_that_is_silent(join: Join, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "CORE_S", 0.01)
    reloading = Later()
    control, _ = await join({}, {"whole": lambda question: reloading if question[0] == "reload" else Later()})
    reload = FromWorker(control).ask("reload")
    for what in ("alive", "ready", "who"):
        with pytest.raises(UsageError, match="the core of this hub has not answered"):
            await awaited(FromWorker(control).ask(what))
    reloading.give("done")
    assert await awaited(reload) == "done"


def all_of_metrics(whole: Gathering) -> Later:
    return whole.ask("metrics")


async def test_a_worker_asks_the_core(node: Node, join: Join) -> None:
    done: list[str] = []
    whole = all_of(node)
    whole.of_core["reload"] = lambda by, _value: {"by": by["name"]}
    whole.parts.functions["drain"] = lambda _by, _value: {"clients": 1, "seconds": 0.1}
    whole.afterwards["drain"] = lambda _by: done.append("drain")
    control, _ = await join({}, {"whole": whole.answer})
    worker = FromWorker(control)
    assert await awaited(worker.ask("drain")) == {"clients": 1, "seconds": 0.1}
    assert done == ["drain"]
    with pytest.raises(UsageError, match="there is nobody"):
        await awaited(worker.ask("kick", {"id": 1}))
