"""One list of scenarios for the three clients: the asyncio client, the one for threads, and hub.js in Node."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
import pytest

from hub.errors import ClosedError, PeerError, UsageError
from hub.settings.settings import JournalSettings, Limits, Settings, StoresSettings
from peers.client import ServiceRequest, blocking, connect
from peers.client.values import InvalidValueError
from tests.client.scripted import quick_backoff
from tests.console.node import Nodes
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub

JAVASCRIPT = Path(__file__).with_name("driver.js").read_text()


class Step(NamedTuple):
    who: str
    verb: str
    given: list[Any]
    result: Any = None
    fails: str = ""


def step_of(line: str) -> Step:
    said, _, failure = line.partition(" !! ")
    said, _, result = said.partition(" -> ")
    who, verb, *given = said.split(maxsplit=2)
    return Step(who, verb, json.loads(f"[{''.join(given)}]"), json.loads(result or "null"), failure)


def scenarios() -> dict[str, list[Step]]:
    found: dict[str, list[Step]] = {}
    name = ""
    for line in Path(__file__).with_name("scenarios.txt").read_text().splitlines():
        if line.startswith("  "):
            found[name].append(step_of(line))
        elif line and not line.startswith("#"):
            name = line
            found[name] = []
    return found


SCENARIOS = scenarios()


class Driver(Protocol):
    async def play(self, who: str, verb: str, given: list[Any]) -> dict[str, Any]:
        """Return `{"is": result}`, or `{"fails": code, "text": ...}`."""

    async def close(self) -> None: ...


# The clients of Python: what the asyncio client does in a task, the other one does in a thread.


async def in_task(call: Callable[..., Any], *given: Any, **options: Any) -> Any:
    result = call(*given, **options)
    return await result if inspect.isawaitable(result) else result


async def all_in_task(items: Any) -> list[Any]:
    return [item async for item in items]


async def all_in_thread(items: Any) -> list[Any]:
    return await asyncio.to_thread(list, items)


async def later(request: ServiceRequest) -> list[Any]:
    await asyncio.sleep(0)
    return [request.topic, request.value]


async def never(_: ServiceRequest) -> None:
    await asyncio.Event().wait()


def fail(request: ServiceRequest) -> None:
    raise LookupError(f"no {request.value}")


ANSWERS: dict[str, Callable[[ServiceRequest], Any]] = {
    "double": lambda request: request.value * 2,
    "later": later,
    "fail": fail,
    "never": never,
}


class Player:
    """One client, and what it has made, by name."""

    def __init__(self, client: Any, *, threads: bool) -> None:
        self.client = client
        self.run: Callable[..., Any] = asyncio.to_thread if threads else in_task
        self.all: Callable[[Any], Any] = all_in_thread if threads else all_in_task
        self.kept: dict[str, Any] = {}
        self.version = 0

    async def _open(self, name: str, made: Any) -> None:
        await self.run(made.open)
        self.kept[name] = made

    async def subscribe(self, name: str, prefixes: list[str], options: dict[str, Any] | None = None) -> None:
        await self._open(name, self.client.subscribe(prefixes, **(options or {})))

    async def subscribe_rule(self, name: str, rule: dict[str, Any]) -> None:
        await self._open(name, self.client.subscribe_rule(**rule))

    async def subscribe_name(self, name: str, to: str) -> None:
        await self._open(name, self.client.subscribe_name(to))

    async def unsubscribe(self, name: str) -> None:
        await self.run(self.kept[name].close)

    async def _messages(self, name: str, count: int) -> list[Any]:
        return [await self.run(self.kept[name].receive) for _ in range(count)]

    async def receive(self, name: str, count: int) -> list[Any]:
        return [list(message) for message in await self._messages(name, count)]

    async def values(self, name: str, count: int) -> list[Any]:
        return [message.value for message in await self._messages(name, count)]

    async def topics(self, name: str, count: int) -> list[Any]:
        return [message.topic for message in await self._messages(name, count)]

    async def labelled(self, name: str, count: int) -> list[Any]:
        found = await self._messages(name, count)
        return [[each.value, list(each.labels), each.sender, each.destination] for each in found]

    async def recorded(self, name: str, count: int) -> list[Any]:
        return [[message.offset, message.value] for message in await self._messages(name, count)]

    async def publish(self, topic: str, value: Any, options: dict[str, Any] | None = None) -> None:
        await self.run(self.client.publish, topic, value, **(options or {}))

    async def publish_each(self, topic: str, values: list[Any]) -> None:
        for value in values:
            self.client.publish_nowait(topic, value)

    async def publish_long(self, topic: str, size: int) -> None:
        await self.run(self.client.publish, topic, "x" * size)

    async def publish_confirmed(self, topic: str, value: Any, options: dict[str, Any] | None = None) -> Any:
        return await self.run(self.client.publish_confirmed, topic, value, **(options or {}))

    async def publish_recorded(self, topic: str, count: int) -> None:
        for value in range(count):
            await self.publish_confirmed(topic, value)

    async def request(self, topic: str, value: Any, options: dict[str, Any] | None = None) -> Any:
        return await self.run(self.client.request, topic, value, **(options or {}))

    async def request_each(self, topic: str, count: int) -> bool:
        answers = await self.run(self.client.request_many, topic, range(count))
        return all(answer in (number * 2, [topic, number]) for number, answer in enumerate(answers))

    async def begin(self, topic: str, value: Any) -> None:
        self.begun = self.client.request_nowait(topic, value)

    async def answer(self) -> Any:
        return await (self.begun if isinstance(self.begun, asyncio.Future) else asyncio.wrap_future(self.begun))

    async def serve(self, name: str, prefixes: list[str], answer: str) -> None:
        await self._open(name, self.client.serve(prefixes, ANSWERS[answer]))

    async def unserve(self, name: str) -> None:
        await self.run(self.kept[name].close)

    async def wait_asked(self, name: str, count: int) -> None:
        await eventually(lambda: self.kept[name].requests == count)

    async def count(self, name: str, topic: str) -> None:
        seen: list[Any] = []
        await self.run(self.client.subscribe_callback, topic, seen.append)
        await self.run(self.client.serve(f"/{name}", lambda _: len(seen)).open)

    async def claim(self, key: str, name: str, options: dict[str, Any] | None = None) -> None:
        self.kept[key] = await self.run(self.client.claim, name, **(options or {}))

    async def owned(self, key: str) -> bool:
        return bool(self.kept[key].owned)

    async def wait_owned(self, key: str) -> None:
        await self.run(self.kept[key].wait_owned)

    async def release(self, key: str) -> None:
        await self.run(self.kept[key].release)

    async def names(self, prefix: str) -> list[Any]:
        return [[known.name, list(known.labels)] for known in await self.run(self.client.names, prefix)]

    async def read(self, prefixes: list[str], options: dict[str, Any] | None = None) -> list[Any]:
        found = await self.all(self.client.read(*prefixes, **(options or {})))
        return [[record.offset, record.topic, record.value] for record in found]

    async def consume(self, name: str, prefixes: list[str], options: dict[str, Any] | None = None) -> None:
        await self._open(name, self.client.consume(name, *prefixes, **(options or {})))

    async def take(self, name: str, then: str) -> list[Any]:
        self.message = await self.run(self.kept[name].receive)
        if then != "nothing":
            await self.run(getattr(self.message, then))
        return [self.message.offset, self.message.value, self.message.deliveries]

    async def consumed(self, name: str, count: int) -> list[Any]:
        return [(await self.take(name, "ack"))[1] for _ in range(count)]

    async def give_back(self, _: str, delay_s: float) -> None:
        await self.run(self.message.nak, delay_s=delay_s)

    async def leave(self, name: str) -> None:
        await self.run(self.kept[name].close)

    async def put(self, key: str, value: Any, options: dict[str, Any] | None = None) -> bool:
        options = dict(options or {})
        if options.pop("if_last", False):
            options["if_version"] = self.version
        version = await self.run(self.client.store("s").put, key, value, **options)
        self.version = version or self.version
        return version is not None

    async def store(self, call: str, *given: Any) -> Any:
        return await self.run(getattr(self.client.store("s"), call), *given)

    async def elsewhere(self, call: str, *given: Any) -> Any:
        return await self.run(getattr(self.client.store("none"), call), *given)

    async def entries(self, prefix: str) -> list[Any]:
        return [[entry.key, entry.value] for entry in await self.all(self.client.store("s").entries(prefix))]

    async def watch(self, prefix: str) -> None:
        await self._open("watch", self.client.store("s").watch(prefix))

    async def changes(self, count: int) -> list[Any]:
        found = await self._messages("watch", count)
        return [[it.kind.value, it.key, it.value, it.old, it.publisher, it.present] for it in found]

    async def copy(self) -> None:
        await self._open("copy", self.client.store("s").replica())

    async def copied(self, key: str) -> list[Any]:
        return [self.kept["copy"].get(key), len(self.kept["copy"])]

    async def at_least(self, version: int = 0, timeout_s: float = 20) -> None:
        await self.run(self.kept["copy"].at_least, version or self.client.store("s").written, timeout_s=timeout_s)

    async def connections(self) -> int:
        return int(self.client.statistics().connections)

    async def wait_lost(self) -> None:
        await eventually(lambda: not self.client.statistics().connected)

    async def close(self) -> None:
        await self.run(self.client.close)


class Python:
    def __init__(self, url: str, *, threads: bool) -> None:
        self._url = url
        self._threads = threads
        self._players: dict[str, Player] = {}

    async def play(self, who: str, verb: str, given: list[Any]) -> dict[str, Any]:
        if who not in self._players:
            options: dict[str, Any] = {"name": who, "backoff": quick_backoff(), "close_timeout_s": 0.1}
            connecting = asyncio.to_thread(blocking.connect, self._url, **options) if self._threads else None
            client = await (connecting or connect(self._url, **options))
            self._players[who] = Player(client, threads=self._threads)
        try:
            return {"is": await getattr(self._players[who], verb)(*given)}
        except ClosedError as error:
            return {"fails": "closed", "text": str(error)}
        except PeerError as error:
            return {"fails": error.code, "text": error.text}
        except (UsageError, InvalidValueError) as error:
            return {"fails": "usage", "text": str(error)}
        except TimeoutError as error:
            return {"fails": "late", "text": str(error)}

    async def close(self) -> None:
        for player in self._players.values():
            await player.close()


class JavaScript:
    def __init__(self, nodes: Nodes, url: str) -> None:
        self._nodes = nodes
        self._url = f"{url.rstrip('/')}/v1/hub"

    async def play(self, who: str, verb: str, given: list[Any]) -> dict[str, Any]:
        server = await self._nodes.ready(self._url)
        await server.evaluate(f"if (!globalThis.play) {{ {JAVASCRIPT} }}")
        body = "return play(who, verb, given)"
        answer: dict[str, Any] = await server.evaluate(body, who=who, verb=verb, given=given)
        return answer

    async def close(self) -> None:
        server = await self._nodes.ready(self._url)
        await server.evaluate("globalThis.begin?.()")
        await self._nodes.reset()


class World:
    """A hub with a journal and a store, and the steps that are its own."""

    def __init__(self, start_hub: StartHub, path: Path, limits: dict[str, int]) -> None:
        self._start_hub = start_hub
        self._settings = Settings(
            limits=msgspec.structs.replace(Limits(), **limits),
            journal=JournalSettings(path=str(path / "journal"), commit_s=0.001),
            stores=StoresSettings(open=("s=:memory:",)),
        )
        self.hub: Hub

    async def start(self, url: str = "") -> None:
        self.hub = await self._start_hub(url or self.hub.endpoint, settings=self._settings)

    async def stop(self) -> None:
        await self.hub.stop()

    async def cut(self) -> None:
        before = len(self.hub.server.core.handlers)
        await self.hub.crash()
        # A client that has not seen yet that its connection is lost writes to it.
        await eventually(lambda: len(self.hub.server.core.handlers) >= before)

    async def prefixes(self, client: str) -> list[str]:
        return sorted(self.hub.prefixes(client))

    async def rules(self) -> int:
        return len(self.hub.server.core.rules)


Play = Callable[[str], Awaitable[None]]

PLACES = ["asyncio-tcp", "asyncio-unix", "asyncio-ws", "threads-tcp", "threads-ws", "javascript-ws"]


@pytest.fixture(params=PLACES)
async def play(request: pytest.FixtureRequest, tmp_path: Path, start_hub: StartHub) -> AsyncIterator[Play]:
    kind, _, transport = request.param.partition("-")
    drivers: list[Driver] = []

    async def play(name: str) -> None:
        limit, _, most = name.partition("[")[2].rstrip("]").partition("=")
        world = World(start_hub, tmp_path, {limit: int(most)} if limit else {})
        await world.start(f"unix://{tmp_path}/hub.sock" if transport == "unix" else f"{transport}://127.0.0.1:0")
        is_js = kind == "javascript"
        url = world.hub.url
        driver = JavaScript(request.getfixturevalue("nodes"), url) if is_js else Python(url, threads=kind == "threads")
        drivers.append(driver)
        for step in SCENARIOS[name]:
            if step.who == "hub":
                check(step, {"is": await getattr(world, step.verb)(*step.given)})
            else:
                check(step, await driver.play(step.who, step.verb, step.given))

    yield play
    for driver in drivers:
        await driver.close()


def check(step: Step, found: dict[str, Any]) -> None:
    code, _, text = step.fails.partition(" ")
    if not code:
        assert "fails" not in found, (step, found)
        assert found["is"] == step.result or step.result is None, (step, found)
    elif code == "refused":  # by the client itself, or by the hub
        assert found.get("fails") in {"usage", 1007, 1008}, (step, found)
    else:
        assert str(found.get("fails")) == code, (step, found)
        assert text in found["text"], (step, found)


@pytest.mark.parametrize("name", SCENARIOS)
async def test_scenario(play: Play, name: str) -> None:
    await play(name)
