"""What the processes of a hub say to each other: orders, questions and answers, and when which is started."""

from __future__ import annotations

import asyncio
import math
import random
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies

from hub.errors import ConnectionLostError, HubError, UsageError
from hub.requests.hub_services import Later
from hub.settings.keys import KEYS, merge, value_at
from hub.settings.settings import Settings
from hub.statistics.losses import State
from peers.admin import access
from peers.admin import state as all_who
from peers.admin.steps import awaited
from peers.server.server import Server
from peers.transport.timing import CLIENT_CAP_S
from peers.workers import gathering
from peers.workers.control import Control, Functions, Orders, of_worker
from peers.workers.gathering import MERGES, PAGES, FromWorker, Gathering, WorkerCounts, merged_page
from peers.workers.workers import STEADY_S, Supervision

# What a worker is told: the settings of the hub, without what belongs to the hub as a whole.


CORE = bytes(range(16))
LISTEN = ("tcp://127.0.0.1:7400",)
GIVEN = {
    "name": "hub",
    "workers": 4,
    "listen": ["tcp://127.0.0.1:0", "unix:///run/hub.sock"],
    "peers": ["tcp://127.0.0.1:7400"],
    "queue": {"messages": 7},
    "mesh": {"hubs": 77},
    "access": {"peer_token": "/etc/token", "anonymous": "member"},
    "journal": {"path": "/var/journal", "tier": "/var/tier"},
    "stores": {"open": ["a=:memory:", "b=:memory:"], "feeds": ["a=/a"]},
    "zeek": {"masters": ["a"], "clones": ["zeek/known/hosts=b"]},
    "drain": {"clients_per_s": 100},
}
SETTINGS, _ = merge([("a test", GIVEN)])


def test_a_worker_has_the_settings_of_the_hub() -> None:
    orders = Orders(msgspec.to_builtins(of_worker(SETTINGS, LISTEN, CORE)), "hub", 2, 5)
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(orders), type=Orders)
    found = sent.loaded().settings
    changed = {path: value_at(found, path) for path in KEYS if value_at(found, path) != value_at(SETTINGS, path)}
    assert changed == {
        "listen": LISTEN,
        "peers": (),
        "access.peer_token": "",
        "journal.path": "",
        "journal.tier": "",
        "journal.of": CORE.hex(),
        "stores.open": (),
        "stores.feeds": (),
        "zeek.masters": (),
        "zeek.clones": (),
        "drain.clients_per_s": 25,
    }


def test_names_of_workers() -> None:
    assert Orders({}, "hub", 2, 5).own_name == "hub/2"
    assert Orders({}, "x" * 64, 12, 1).own_name == "x" * 61 + "/12"
    assert Orders({}, "ü" * 32, 1, 1).own_name == "ü" * 31 + "/1"


# All processes are asked; who is gone or silent is left out. Pairs of sockets stand for workers.


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
async def server() -> Server:
    return Server(Settings(), name="core")


def all_of(server: Server, *controls: Control) -> Gathering:
    counts = WorkerCounts(len(controls), len(controls), 0, 0, 0)
    found = Gathering(server, lambda: enumerate(controls, 1), lambda silent: counts._replace(silent_total=silent))
    found.parts.functions["kick"] = lambda _by, value: fail(value)
    return found


async def test_one_answer_suffices(server: Server, join: Join) -> None:
    one, _ = await join({}, {"part": lambda _: {"kicked": 2}})
    other, _ = await join({}, {"part": fail})
    assert await awaited(all_of(server, one, other).ask("kick", {"user": "ada"})) == {"kicked": 2}
    with pytest.raises(HubError, match="there is nobody"):
        await awaited(all_of(server, other).ask("kick", {"user": "ada"}))


async def test_who_is_silent_is_left_out(server: Server, join: Join, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "ANSWER_S", 0.01)
    one, _ = await join({}, {"part": lambda _: {"kicked": 2}})
    silent, _ = await join({}, {"part": lambda _: Later()})
    gone, far = await join({}, {})
    far.close()
    await gone.lost
    whole = all_of(server, one, silent, gone)
    assert await awaited(whole.ask("kick", {"user": "ada"})) == {"kicked": 2}
    assert whole.silent_total == 1
    one.close()
    await one.lost
    assert b"hub_workers_timeouts_total 2.0" in await awaited(all_of_metrics(whole))


async def test_why_a_hub_is_not_ready(server: Server, join: Join, monkeypatch: pytest.MonkeyPatch) -> None:
    ready, _ = await join({}, {"part": lambda _: ""})
    starting, _ = await join({}, {"part": lambda _: "the hub is starting"})
    silent, _ = await join({}, {"part": lambda _: Later()})
    assert await awaited(all_of(server, ready).ask("ready")) == "the hub is starting"
    server.ready = True
    assert await awaited(all_of(server, ready).ask("ready")) == ""
    assert await awaited(all_of(server, ready, starting).ask("ready")) == "worker 2: the hub is starting"
    monkeypatch.setattr(gathering, "ANSWER_S", 0.5)  # in which the one that is ready answers, on a busy machine, too
    assert await awaited(all_of(server, ready, silent).ask("ready")) == "1 of 2 workers serve"


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


async def test_a_worker_asks_the_core(server: Server, join: Join) -> None:
    done: list[str] = []
    whole = all_of(server)
    whole.of_core["reload"] = lambda by, _value: {"by": by["name"]}
    whole.parts.functions["drain"] = lambda _by, _value: {"clients": 1, "seconds": 0.1}
    whole.afterwards["drain"] = lambda _by: done.append("drain")
    control, _ = await join({}, {"whole": whole.answer})
    worker = FromWorker(control)
    assert await awaited(worker.ask("drain")) == {"clients": 1, "seconds": 0.1}
    assert done == ["drain"]
    with pytest.raises(UsageError, match="there is nobody"):
        await awaited(worker.ask("kick", {"id": 1}))


# How the answers of several processes become one.


def test_a_page_of_connections() -> None:
    parts = [[{"id": first + 3 * number} for number in range(all_who.PAGE)] for first in (1, 2, 3)]
    assert [row["id"] for row in merged_page(parts)] == list(range(1, all_who.PAGE + 1))


def user(name: str, *, connections: int, roles: tuple[str, ...] = ("member",)) -> dict[str, Any]:
    sums = {"queued_bytes": 10, "published_messages": 20, "dropped_messages": 30}
    return {"user": name, "roles": [*roles], "connections": connections} | sums


def test_a_page_of_users() -> None:
    names = [f"user-{number:05}" for number in range(access.USERS + 10)]
    parts = [[user(name, connections=1) for name in some[: access.USERS]] for some in (names, names[5:])]
    found = MERGES["users"](parts)
    assert [row["user"] for row in found] == names[: access.USERS]
    assert {row["connections"] for row in found[5:]} == {2}


def share(name: str, held: int, users: int = 1) -> dict[str, Any]:
    return {"user": name, "users": users, "held": {"prefixes": held}, "refused_total": 1, "held_back_s": 0.5}


def process(name: str, *ids: int, users: list[dict[str, Any]]) -> dict[str, Any]:
    some = [{"id": one} for one in ids]
    head = {
        "hub": name,
        "at_s": float(len(ids)),
        "handlers": len(ids),
        "memory_bytes": 10,
        "memory_limit_bytes": 100,
        "dropped_log_lines": 5,
        "links": [name],
        "state": State(connections=len(ids), subscribers=1).fields(),
    }
    return head | {"users": users, "some": some}


def test_handlers_of_all_processes() -> None:
    parts = [
        process("hub", 1, users=[share("ada", 1), share("", 5, users=3)]),
        process("hub/1", 7, 8, users=[share("bob", 9), share("ada", 2)]),
        process("hub/2", users=[]),
    ]
    found = MERGES["statistics"](parts)
    assert found["state"]["text"] == "All 3 subscribers keep up, nothing was dropped in the last minute."
    assert found["state"]["connections"] == 3
    assert (found["hub"], found["at_s"]) == ("hub", 1.0)
    assert [row["id"] for row in found["some"]] == [1, 7, 8]
    assert (found["memory_bytes"], found["memory_limit_bytes"], found["dropped_log_lines"]) == (30, 300, 15)
    assert found["links"] == ["hub", "hub/1", "hub/2"]
    assert [(one["user"], one["held"], one["users"]) for one in found["users"]] == [
        ("bob", {"prefixes": 9}, 1),
        ("ada", {"prefixes": 3}, 1),
        ("", {"prefixes": 5}, 3),
    ]


def test_audited_events() -> None:
    parts = [
        [{"at": 9.0}, {"at": 5.0, "of": 1}, {"at": 2.0}],
        [{"at": 7.0}, {"at": 5.0, "of": 2}, {"at": 5.0, "of": 3}],
    ]
    found = PAGES["audit"](parts, {"limit": 3})
    assert found == [{"at": 9.0}, {"at": 7.0}, {"at": 5.0, "of": 1}, {"at": 5.0, "of": 2}, {"at": 5.0, "of": 3}]
    assert len(PAGES["audit"](parts, None)) == 6
    assert PAGES["audit"]([[], []], {"limit": 1}) == []


# When which worker is started, by a clock that the test winds.


DRAWS = random.Random(1)  # noqa: S311 -- spread, not secrecy


def test_who_ends_is_started_again_after_a_while() -> None:
    supervision = Supervision(2, DRAWS)
    assert supervision.next_s() == -math.inf
    assert (supervision.due(0.0), supervision.due(0.0)) == ([1, 2], [])
    assert (len(supervision), supervision.started, supervision.up) == (2, 2, 0)
    supervision.serves(1, 0.0)
    supervision.serves(2, 0.0)
    assert (supervision.up, supervision.next_s()) == (2, math.inf)
    wait_s = supervision.end(2, 10.0)
    assert 0 < wait_s <= 0.1
    assert (supervision.up, supervision.ended) == (1, 1)
    assert supervision.next_s() == 10.0 + wait_s
    assert supervision.due(10.0 + wait_s / 2) == []
    assert supervision.due(10.0 + wait_s) == [2]
    assert supervision.started == 3


def longest_wait_s(served_s: float) -> float:
    supervision, now_s, longest_s = Supervision(1, DRAWS), 0.0, 0.0
    for _ in range(50):
        assert supervision.due(now_s) == [1]
        supervision.serves(1, now_s)
        now_s += served_s
        wait_s = supervision.end(1, now_s)
        longest_s = max(longest_s, wait_s)
        now_s += wait_s
    return longest_s


def test_waits_grow_while_it_ends_at_once() -> None:
    assert 10 < longest_wait_s(1.0) <= CLIENT_CAP_S
    assert longest_wait_s(STEADY_S) <= 0.1


@given(
    strategies.lists(strategies.tuples(strategies.sampled_from(["serves", "ends", "waits"]), strategies.integers(1, 3)))
)
def test_a_place_has_one_process(steps: list[tuple[str, int]]) -> None:
    supervision, now_s, alive = Supervision(3), 0.0, set[int]()
    for step, number in steps:
        now_s += 1.0
        found = supervision.due(now_s)
        assert alive.isdisjoint(found)
        alive.update(found)
        assert supervision.overdue(now_s) == []
        if step == "serves" and number in alive:
            supervision.serves(number, now_s)
        elif step == "ends" and number in alive:
            supervision.end(number, now_s)
            alive.remove(number)
    assert alive | set(supervision.due(now_s + CLIENT_CAP_S)) == {1, 2, 3}
