"""Metrics, `$hub/` topics and services, exit codes, `--json` fields and messages over WebSocket, of a running hub."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from websockets.frames import Opcode

from hub.messages.batch import encode_value
from hub.messages.frame import encode_frame
from peers.client import Client, MessageStream, RequestError, blocking, connect
from peers.server.metrics import JOURNAL, METRICS, TIER, Row
from peers.transport.endpoints import Endpoint
from peers.wire.kinds import Kind
from peers.workers.gathering import WORKERS
from tests.cli.programs import RunningHub, hub, run_hub
from tests.contracts.golden import check, fields_of
from tests.contracts.hub_topics import SERVICES, TOPICS
from tests.contracts.reference import full_name
from tests.hubs.eventually import settle
from tests.hubs.raw_client import RawClient
from tests.hubs.raw_websocket import RawWebSocket, frame

POLICY = """
[roles.sensor]
publish = ["/zeek"]
[users]
alice = ["sensor"]
"""


class Site(NamedTuple):
    hub: RunningHub
    folder: Path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    with run_hub(folder, *_flags(folder)) as running:
        yield Site(running, folder)


def _flags(folder: Path) -> list[str]:
    stores = ["--store", "kv=:memory:", "--store", f"last={folder}/last.db", "--store-from", "last=/last/"]
    return ["--name", "hub", "--journal", f"{folder}/journal", "--journal-tier", f"{folder}/tier", *stores]


def test_metrics(tmp_path: Path) -> None:
    with run_hub(tmp_path, *_flags(tmp_path), "--workers", "2") as running:
        url = running.ws.replace("ws://", "http://") + "/metrics"
        with urllib.request.urlopen(url) as answer:  # noqa: S310 -- a hub's
            page = answer.read().decode()
    kinds = dict(re.findall(r"^# TYPE (hub_\w+) (\w+)$", page, re.MULTILINE))
    labels = {
        name: sorted(set(re.findall(r'(\w+)="', said)) - {"worker", "le"})
        for name, said in re.findall(r"^(\w+?)(?:_bucket|_sum|_count)?(?:\{(.*)\})? [^ ]+$", page, re.MULTILINE)
    }
    rows: tuple[Row[Any], ...] = (*METRICS, *JOURNAL, *TIER, *WORKERS)
    documented = {full_name(row): sorted(row.labels) for row in rows}
    lines = (" ".join([name, kind, *labels.get(name, documented[name])]) for name, kind in kinds.items())
    check("metrics.txt", lines)


# Topics.


async def _until(stream: MessageStream, seen: dict[str, set[str]], *topics: str) -> None:
    missing = set(topics)
    while missing:
        topic, value = await stream.receive()
        seen.setdefault(topic, set()).update(fields_of(value))
        missing.discard(topic)


async def test_topics(site: Site, tmp_path: Path) -> None:
    seen: dict[str, set[str]] = {}
    async with connect(site.hub.tcp, name="watcher") as client, client.subscribe("$hub/") as stream:
        async with connect(site.hub.tcp, name="comes and goes") as other:
            await other.claim("org.example.Door", ["lock"])
            consumer = other.consume("billing", "/app/")
            await consumer.open()
            await _until(stream, seen, "$hub/client/joined", "$hub/names/appeared", "$hub/consumers")
            await consumer.close()
            await other.remove_consumer("billing")
        await _until(stream, seen, "$hub/client/left", "$hub/names/gone", "$hub/consumers")
        with run_hub(tmp_path, "--peer", site.hub.tcp, "--name", "far"):
            await _until(stream, seen, "$hub/peer/joined", "$hub/mesh", "$hub/statistics")
        await _until(stream, seen, "$hub/peer/left", "$hub/mesh")
        await _lose(site, client, stream, seen)
        await client.request("$hub/reload", None)
        await _until(stream, seen, "$hub/audit", "$hub/statistics")
    assert not [topic for topic, fields in seen.items() if fields - TOPICS[topic].fields.keys()]
    check("topics.txt", [*TOPICS, *(f"{topic} {field}" for topic, fields in seen.items() for field in fields)])


async def _lose(site: Site, client: Client, stream: MessageStream, seen: dict[str, set[str]]) -> None:
    page = await RawWebSocket.connect(Endpoint.parse(site.hub.ws))
    await page.shake_hands("hub.v1.json")
    await page.say("subscribe", prefixes=["/lose/packed"], request=1)
    slow = await RawClient.connect(Endpoint.parse(site.hub.tcp), receive_bytes=4_096)
    await slow.greet(name="slow", queue={"messages": 1, "bytes": 65_536, "overflow": "drop-newest"})
    await slow.subscribe("/lose/large")
    await slow.send(encode_frame(Kind.MESSAGES, b"\xd4\x63\x01", key=b"/lose/packed"))
    for _ in range(200):
        await client.publish("/lose/large", bytes(60_000))
    await _until(stream, seen, "$hub/overflow", "$hub/unreadable")
    slow.close()
    page.close()


# Services.

ASKED: dict[str, list[Any]] = {
    "$hub/reload": [None],  # the first, so that there is something in the audit
    "$hub/audit": [None],
    "$hub/consumers": [None],
    "$hub/history": [None],
    "$hub/journal": [None],
    "$hub/kick": [{"user": "nobody"}],
    "$hub/losses": [None],
    "$hub/mesh/graph": [None],
    "$hub/mesh/trace": [{"topic": "/lose/large"}],
    "$hub/nodes": [None],
    "$hub/policy/test": [{"action": "publish", "topic": "/zeek", "user": "alice"}],
    "$hub/rights": [None],
    "$hub/services": [None],
    "$hub/settings": [None],
    "$hub/state": [None],
    "$hub/stores": [None],
    "$hub/topics": [None, {"under": "/app"}],
    "$hub/users": [None],
    "$hub/who": [None],
}
"""What each service is asked; `$hub/drain` ends the hub, and others are dropped by the plan."""


@contextlib.asynccontextmanager
async def _busy(site: Site) -> AsyncIterator[Client]:
    async with (
        connect(site.hub.tcp, name="busy") as client,
        client.subscribe("/app/"),
        client.consume("invoices", "/app/"),
    ):
        await client.claim("org.example.Sum", ["sum"])
        await client.serve("/sum", lambda request: request.value).open()
        for number in range(10):
            await client.publish_confirmed(f"/app/{number}", {"n": number})
        await client.publish_confirmed("/last/a", 1)
        while not await _is_known(client):
            await settle()
        yield client


async def _is_known(client: Client) -> bool:
    links = [one["link"] for one in await client.request("$hub/mesh/graph", None)]
    clients = [one for one in await client.request("$hub/who", None) if one["name"] == "busy"]
    return any(link and link["rates"] for link in links) and all(one["rates"] for one in clients)


async def test_services(site: Site, tmp_path: Path) -> None:
    lines = list(SERVICES)
    undescribed: set[str] = set()
    with run_hub(tmp_path, "--peer", site.hub.tcp, "--name", "far"):
        async with _busy(site) as client:
            async with client.subscribe("$hub/") as stream:
                await _lose(site, client, stream, {})
            for topic, values in ASKED.items():
                for value in values:
                    try:
                        answer = await client.request(topic, value)
                    except RequestError as error:
                        answer = {f"fails: {error.status}": True}
                    fields = {re.sub(r"[0-9a-f]{32}", "ID", field) for field in fields_of(answer)}
                    lines += [f"{topic} {field}" for field in fields]
                    known = {"[]", *SERVICES[topic].fields}
                    undescribed |= {f"{topic} {field}" for field in fields - known if not field.startswith("fails")}
    assert not undescribed
    check("services.txt", lines)


# Commands.

JSON = {
    "hub check": [],
    "hub check-config": [],
    "hub journal consumers": [],
    "hub journal ls": ["JOURNAL"],
    "hub journal ls --topics": ["JOURNAL"],
    "hub journal stat": ["JOURNAL"],
    "hub journal verify": ["JOURNAL"],
    "hub mesh": [],
    "hub names": [],
    "hub policy test": ["alice", "publish", "/zeek", "--policy", "POLICY"],
    "hub store ls": [],
    "hub store get": ["last", "/last/a"],
    "hub token list": ["--config", "CONFIG"],
    "hub top --once": [],
    "hub trace": ["/app/"],
    "hub users": [],
    "hub who": [],
    "hub context ls": [],
}
"""Commands with `--json`, and their arguments."""


async def test_json(site: Site, tmp_path: Path) -> None:
    (site.folder / "policy.toml").write_text(POLICY)
    paths = {name: str(site.folder / file) for name, file in
             {"JOURNAL": "journal", "POLICY": "policy.toml", "CONFIG": "hub.toml"}.items()}  # fmt: skip
    config = {"XDG_CONFIG_HOME": str(site.folder / "config")}
    hub("context", "add", "here", "--url", site.hub.tcp, **config)
    access = f'[access]\npolicy = "{paths["POLICY"]}"\ntokens = "{site.folder}/tokens"\n'
    (site.folder / "hub.toml").write_text(access)
    hub("token", "new", "alice", "--config", paths["CONFIG"])
    with run_hub(tmp_path, "--peer", site.hub.tcp, "--name", "far"):
        lines = await _written(site, paths, config)
    check("json.txt", lines)


async def _written(site: Site, paths: dict[str, str], config: dict[str, str]) -> list[str]:
    lines: list[str] = []
    async with _busy(site):
        for command, arguments in JSON.items():
            words = [*command.split()[1:], *(paths.get(word, word) for word in arguments)]
            done = await asyncio.to_thread(hub, *words, "--json", url=site.hub.tcp, **config)
            assert done.returncode == 0, (command, done)
            found = {field for line in done.stdout.splitlines() for field in fields_of(json.loads(line))}
            lines += [f"{command} {re.sub('[0-9a-f]{32}', 'ID', field)}" for field in found]
    return lines


NOWHERE = "tcp://127.0.0.1:1"

CODES: dict[str, int] = {
    "--help": 0,
    "--version": 0,
    "": 0,
    "nonsense": 2,
    "pub /a 1": 0,
    "pub /a 1 --no-such-flag": 2,
    "pub $hub/a 1": 2,
    "pub /a 1 --url NOWHERE": 1,
    "sub /a --limit 1 --timeout 0.1": 2,
    "sub /a --timeout 0.1": 0,
    "sub /a --url NOWHERE": 1,
    "request /nobody 1": 1,
    "consume billing /a --limit 1 --timeout 0.1": 2,
    "names": 0,
    "check": 0,
    "check --warn-ms 0": 1,
    "check NOWHERE": 2,
    "check-config": 0,
    "check-config --queue-messages x": 2,
    "check-config --config FOLDER/none.toml": 1,
    "run --config FOLDER/none.toml": 1,
    "kick 1000000": 1,
    "top --once": 0,
    "top --once --url NOWHERE": 1,
    "mesh": 0,
    "who": 0,
    "users": 0,
    "trace /a": 0,
    "reload": 0,
    "policy check FOLDER/policy.toml": 0,
    "policy check FOLDER/hub.log": 1,
    "policy test alice publish /zeek --policy FOLDER/policy.toml": 0,
    "policy test alice publish /other --policy FOLDER/policy.toml": 1,
    "store put kv a 1": 0,
    "store get kv a": 0,
    "store get kv absent": 1,
    "store put kv a 2 --if-version 0": 1,
    "store erase kv absent": 1,
    "journal verify FOLDER/journal": 0,
    "journal verify FOLDER/none": 1,
    "journal verify FOLDER/damaged": 3,
    "journal stat FOLDER/none": 1,
    "token revoke FOLDER --access-tokens FOLDER/none": 1,
    "context rm none": 2,
    "completion bash": 0,
    "completion none": 2,
}


def test_exit_codes(site: Site) -> None:
    (site.folder / "policy.toml").write_text(POLICY)
    with blocking.connect(site.hub.tcp) as client:
        client.publish_confirmed("/a", os.urandom(50_000).hex())
    _damage(site.folder)
    found: dict[str, int] = {}
    for command in CODES:
        words = command.replace("FOLDER", str(site.folder)).replace("NOWHERE", NOWHERE).split()
        config = {"XDG_CONFIG_HOME": str(site.folder / "config")}
        found[command] = hub(*words, url=site.hub.tcp, **config).returncode
    assert found == CODES


def _damage(folder: Path) -> None:
    shutil.copytree(folder / "journal", folder / "damaged")
    largest = max((folder / "damaged").rglob("*"), key=lambda path: path.stat().st_size if path.is_file() else 0)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 0xFF
    largest.write_bytes(data)


DIFFERS = {"hub", "software", "journal", "epoch", "time_ms", "until", "blocks", "head"}
"""Fields whose values are others in each run. Texts of errors are for people, and no contract either."""


class Step(NamedTuple):
    who: str
    says: dict[str, Any]
    a: int = 0
    b: int = 0


def _said(type_: str, **fields: Any) -> dict[str, Any]:
    return {"type": type_} | fields


CONVERSATION = [
    Step("a", _said("hello", name="reader", queue={"messages": 100, "overflow": "drop-newest"}), a=1),
    Step("b", _said("hello", name="writer", narrow=True), b=1),
    Step("a", _said("subscribe", prefixes=["/zeek/", "/app"], request=1), a=1),
    Step("b", _said("publish", topic="/zeek/dns", value={"query": "example.org", "ttl": 300}), a=1),
    Step("b", _said("publish", topic="/app", values=[1, "two", [3.5, None, True]], request=2), a=1, b=1),
    Step("b", _said("publish", topic="/app/door", value=1, labels=["urgent", "north"], to="", request=3), a=1, b=1),
    Step("b", _said("publish", topic="/app", values=["x", "y"], confirm=True, request=4), a=1, b=1),
    Step("b", _said("publish", topic="$hub/own", value=1, request=5), b=1),
    Step("b", _said("publish", topic="/app", value=1, values=[1], request=6), b=1),
    Step("a", _said("unsubscribe", prefixes=["/zeek/", "/app"], request=2), a=1),
    Step("a", _said("rule", rules=[{"labels": ["urgent"]}, {"prefix": "/x", "sender": "org.x"}], request=3), a=1),
    Step("b", _said("publish", topic="/other", value=2, labels=["urgent"]), a=1),
    Step("a", _said("unrule", rules=[{"labels": ["urgent"]}], request=4), a=1),
    Step("a", _said("request", request=1, topic="/sum", value=[1, 2]), a=1),
    Step("b", _said("serve", prefixes=["/sum"], request=7), b=1),
    Step("a", _said("request", request=7, topic="/sum", value=[1, 2], timeout_ms=60_000), b=1),
    Step("b", _said("reply", request=0, value=3), a=1),
    Step("a", _said("request", request=8, topic="/sum", values=[[1], [2], "x"], timeout_ms=60_000), b=1),
    Step("b", _said("reply", request=1, values=[1, 2]), a=1),
    Step("b", _said("reply", request=3, status=1, text="no list", count=1), a=1),
    Step("b", _said("reply", request=99, value=1), b=1),
    Step("b", _said("unserve", prefixes=["/sum"], request=8), b=1),
    Step("a", _said("claim", name="org.example.Door", labels=["lock"], request=5), a=1),
    Step("b", _said("claim", name="org.example.Door", request=9), b=1),
    Step("b", _said("claim", name="org.example.Door", queue=True, request=10), b=1),
    Step("a", _said("release", name="org.example.Door", request=6), a=1, b=1),
    Step("a", _said("request", request=20, service="org.example.Door", value="open", timeout_ms=60_000), b=1),
    Step("b", _said("reply", request=4, value="opened"), a=1),
    Step("a", _said("token", token="hub_abc", request=7), a=1),
    Step("a", _said("ping", request=8), a=1),
    Step("a", _said("fetch", request=9, start=0, end=4, prefixes=["/app"]), a=1),
    Step("a", _said("fetch", request=10, bytes=0, journal=""), a=1),
    Step("a", _said("fetch", request=11, start=1, end=3, columns=["offset", "topic"]), a=1),
    Step("a", _said("fetch", request=12, start=1_000_000), a=1),
    Step("a", _said("subscribe", prefixes=["/a\0"], request=11), a=1),
    Step("a", _said("subscribe", prefixes="/a", request=12), a=1),
    Step("a", _said("nonsense", request=13), a=1),
    Step("a", _said("subscribe", prefixes=["/packed"]), a=0),
]
"""Types that only a hub says come as answers; `dropped` is behind it."""


class Recorder:
    def __init__(self, opcode: Opcode) -> None:
        self.lines: list[str] = []
        self._opcode = opcode
        self._encode = msgspec.json.encode if opcode is Opcode.TEXT else msgspec.msgpack.encode
        self._decode = json.loads if opcode is Opcode.TEXT else msgspec.msgpack.decode

    async def say(self, who: str, client: RawWebSocket, message: dict[str, Any]) -> None:
        payload = self._encode(message)
        self._note(f"{who} > ", payload)
        await client.send(frame(self._opcode, payload))

    async def hear(self, who: str, client: RawWebSocket) -> None:
        opcode, payload = await client.frame()
        assert opcode == self._opcode
        self._note(f"{who} < ", payload)

    def _note(self, way: str, payload: bytes) -> None:
        message = self._decode(payload)
        masked = _masked(message)
        if masked != message:
            shown = json.dumps(masked)
        else:
            shown = payload.decode() if self._opcode is Opcode.TEXT else payload.hex()
        self.lines.append(f"{len(self.lines):03} {way}{shown}")


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        differs = DIFFERS | ({"text"} if value.get("type") == "error" or value.get("status") == 2 else set())
        return {name: "..." if name in differs and inner != "" else _masked(inner) for name, inner in value.items()}
    return [_masked(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
async def test_a_conversation(tmp_path: Path, encoding: str) -> None:
    recorder = Recorder(Opcode.TEXT if encoding == "json" else Opcode.BINARY)
    with run_hub(tmp_path, "--journal", str(tmp_path / "journal"), "--name", "hub") as hub:
        clients = {who: await RawWebSocket.connect(Endpoint.parse(hub.ws)) for who in "ab"}
        for who, client in clients.items():
            await client.shake_hands(f"hub.v1.{encoding}")
            await recorder.hear(who, client)
        for step in CONVERSATION:
            await recorder.say(step.who, clients[step.who], step.says)
            for who, count in (("b", step.b), ("a", step.a)):
                for _ in range(count):
                    await recorder.hear(who, clients[who])
        await clients["a"].say("ping", request=99)
        await clients["a"].message()
        packed = await RawClient.connect(Endpoint.parse(hub.tcp))
        await packed.greet()
        values = b"\x00\x00\x00\x02" + b"\xd4\x63\x01" + encode_value("behind")  # an extension without a JSON form
        await packed.send(encode_frame(Kind.MESSAGES, values, key=b"/packed", flags=1))
        for _ in range(2 if encoding == "json" else 1):
            await recorder.hear("a", clients["a"])
        for client in (*clients.values(), packed):
            client.close()
    check(f"websocket.{encoding}.txt", recorder.lines)
