"""A hub that reads again what it was started with: all of it, or nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hub.errors import BusyError, CloseCode, HubError, RequestFailedError
from hub.requests.hub_services import Later
from hub.settings.keys import KEYS
from peers.admin.steps import awaited
from peers.client import connect
from peers.daemon.daemon import Daemon
from peers.daemon.reloading import MANY, Reloading
from peers.daemon.service_manager import ServiceManager
from peers.daemon.sources import Loaded, load
from peers.wire.control import decode_close
from peers.wire.kinds import Kind
from tests.daemon.conftest import Connect
from tests.daemon.test_process import Manager
from tests.hubs.authority import Authority
from tests.hubs.eventually import eventually
from tests.hubs.mesh_peer import MeshPeer

POLICY = """
[users]
ada = ["member"]
bob = ["reader"]
[unix]
{uid} = "{user}"
"""


class Files:
    def __init__(self, folder: Path) -> None:
        self.settings = folder / "hub.toml"
        self.policy = folder / "policy.toml"
        self.listen = ["tcp://127.0.0.1:0", f"unix://{folder}/hub.sock"]
        self.loads = 0

    def write(self, user: str, *, queue: int = 100, policy: str = POLICY, more: str = "") -> None:
        self.policy.write_text(policy.format(uid=os.geteuid(), user=user))
        self.write_settings(f'[queue]\nmessages = {queue}\n[access]\npolicy = "{self.policy}"\n{more}')

    def write_settings(self, text: str) -> None:
        self.settings.write_text(f"listen = {self.listen!r}\n{text}")

    def load(self) -> Loaded:
        self.loads += 1
        return load({}, {}, str(self.settings))


class Reloads:
    def __init__(self, files: Files) -> None:
        self.daemon = Daemon(files.load(), "hub")
        self.applied = 0
        self.reloading = Reloading(self.daemon, files.load, self._count)

    def _count(self) -> None:
        self.applied += 1

    async def ask(self, value: Any = None) -> Any:
        return await awaited(self.reloading.answer(None, value))  # type: ignore[arg-type]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
async def start(files: Files) -> Any:
    begun: list[Reloads] = []

    async def start() -> Reloads:
        begun.append(Reloads(files))
        await begun[0].daemon.start()
        return begun[0]

    yield start
    for one in begun:
        for connection in list(one.daemon.server.connections):
            connection.abort()
        await one.daemon.stop()


async def test_what_has_changed(files: Files, start: Callable[..., Any]) -> None:
    files.write("ada")
    hub = await start()
    assert await hub.ask() == {"changed": [], "needs_restart": [], "closed": 0}
    files.write("ada", queue=200, more="[journal]\ncommit_s = 0.5\n")
    assert await hub.ask() == {"changed": ["queue.messages"], "needs_restart": ["journal.commit_s"], "closed": 0}
    assert hub.daemon.server.settings.queue.messages == 200
    assert hub.applied == 2


async def test_the_settings_in_force(files: Files, start: Callable[..., Any]) -> None:
    """What they are and where each came from; what needs a restart is told as it was at the start."""
    files.write_settings("[queue]\nmessages = 100\n[journal]\ncommit_s = 0.5\n")
    hub = await start()
    async with connect(hub.daemon.endpoints[0].location) as client:

        async def ask() -> dict[str, Any]:
            rows = await client.request("$hub/settings", None)
            assert [row["setting"] for row in rows] == list(KEYS)
            return {row["setting"]: row for row in rows}

        told = await ask()
        assert told["queue.messages"] == {
            "setting": "queue.messages",
            "value": 100,
            "unit": "messages",
            "from": str(files.settings),
            "live": True,
            "description": KEYS["queue.messages"].description,
        }
        assert (told["log.level"]["value"], told["log.level"]["from"]) == ("info", "default")
        assert told["listen"]["value"] == files.listen
        files.write_settings('[queue]\nmessages = 200\n[log]\nlevel = "info"\n')
        await hub.ask()
        told = await ask()
        assert told["queue.messages"]["value"] == 200
        assert told["log.level"]["from"] == str(files.settings)
        assert (told["journal.commit_s"]["value"], told["journal.commit_s"]["from"]) == (0.5, str(files.settings))
        with pytest.raises(RequestFailedError, match="expected null"):
            await client.request("$hub/settings", 1)


async def test_a_policy_that_would_close_most(files: Files, start: Callable[..., Any], connect: Connect) -> None:
    files.write("ada")
    hub = await start()
    for _ in range(MANY + 1):
        await connect(hub.daemon.endpoints[1])
    files.write("eve", policy=POLICY.replace("ada", "eve"))
    with pytest.raises(HubError, match=r"11 of 11 connections would be closed.* --force"):
        await hub.ask()
    assert len(hub.daemon.server.core.handlers) == MANY + 1
    assert (await hub.ask({"force": True}))["closed"] == MANY + 1
    with pytest.raises(HubError, match="null is expected"):
        await hub.ask({"forced": True})


JWTS = 'jwt_issuer = "i"\njwt_audience = "hub"\n'
BROKEN: dict[str, Callable[[Files], object]] = {
    "no TOML": lambda files: files.write_settings("[queue\nmessages = 200"),
    "an unknown key": lambda files: files.write_settings("[queue]\nmesages = 200"),
    "a policy that is gone": lambda files: (files.write("bob", queue=200), files.policy.unlink()),
    "a policy that is no TOML": lambda files: files.write("bob", queue=200, policy="[users"),
    "a role that there is not": lambda files: files.write("bob", queue=200, policy='[users]\nada = ["boss"]'),
    "a policy that is empty": lambda files: files.write("bob", queue=200, policy="# cut off here"),
    "tokens that are none": lambda files: files.write("bob", queue=200, more=f'tokens = "{files.settings}"'),
    "keys that are none": lambda files: files.write("bob", queue=200, more=f'jwt_keys = "{files.policy}"\n{JWTS}'),
    "anonymous what there is not": lambda files: files.write("bob", queue=200, more='anonymous = "boss"'),
}


@pytest.mark.parametrize("broken", BROKEN)
async def test_all_or_nothing(files: Files, start: Callable[..., Any], connect: Connect, broken: str) -> None:
    files.write("ada")
    hub = await start()
    client = await connect(hub.daemon.endpoints[1], name="here")
    rights = next(iter(hub.daemon.server.core.handlers.values())).rights
    BROKEN[broken](files)
    with pytest.raises(HubError) as failed:
        await hub.ask()
    assert "\n" not in str(failed.value)
    assert hub.daemon.server.settings.queue.messages == 100
    assert not hub.applied
    handler = next(iter(hub.daemon.server.core.handlers.values()))
    assert handler.rights is rights
    other = await connect(hub.daemon.endpoints[1], name="later")
    users = [one.rights.user.name for one in hub.daemon.server.core.handlers.values() if one.rights is not None]
    assert users == ["ada", "ada"]
    assert await client.ping() == await other.ping() == []
    files.write("ada", queue=200)
    assert (await hub.ask())["changed"] == ["queue.messages"]


async def test_who_is_gone(files: Files, start: Callable[..., Any], connect: Connect) -> None:
    files.write("ada")
    hub = await start()
    client = await connect(hub.daemon.endpoints[1])
    files.write("bob")
    assert await hub.ask() == {"changed": [], "needs_restart": [], "closed": 1}
    assert (await client.end())[0] == CloseCode.FORBIDDEN
    client.close()
    again = await connect(hub.daemon.endpoints[1])
    (handler,) = hub.daemon.server.core.handlers.values()
    assert handler.rights is not None
    assert handler.rights.user.name == "bob"
    assert await again.ping() == []


async def test_a_peer_hub_that_may_be_none_any_more(files: Files, start: Callable[..., Any]) -> None:
    site = (
        POLICY.replace('ada = ["member"]', 'ada = ["site"]')
        + '[roles.site]\nlink = {{ bring = ["*"], take = ["*"] }}\n'
    )
    files.write("ada", policy=site)
    hub = await start()
    link = await MeshPeer.connect(hub.daemon.endpoints[1])
    await link.link(name="far")
    files.write("ada", policy=site.replace('take = ["*"]', 'take = ["/a"]'))
    assert (await hub.ask())["closed"] == 0
    files.write("ada")
    assert (await hub.ask())["closed"] == 1
    while (frame := await link.frame()).kind != Kind.CLOSE:
        pass
    assert decode_close(frame.body)[0] == CloseCode.FORBIDDEN
    link.close()


async def test_a_hub_that_gets_users(files: Files, start: Callable[..., Any], connect: Connect) -> None:
    files.write_settings("")
    hub = await start()
    client = await connect(hub.daemon.endpoints[1])
    files.write("ada")
    assert (await hub.ask())["closed"] == 1
    code, text = await client.end()
    assert (code, "connect again" in text) == (CloseCode.GOING_AWAY, True)
    client.close()
    files.write_settings("")
    await connect(hub.daemon.endpoints[1])
    assert (await hub.ask())["closed"] == 0
    (handler,) = hub.daemon.server.core.handlers.values()
    assert handler.rights is None


async def test_one_at_a_time(files: Files, start: Callable[..., Any]) -> None:
    files.write("ada")
    hub = await start()
    loads = files.loads
    first = asyncio.ensure_future(hub.ask())
    await asyncio.sleep(0)
    with pytest.raises(BusyError):
        hub.reloading.answer(None, None)
    for _ in range(3):
        hub.reloading.signal()
    await first
    await eventually(lambda: hub.applied == 2)
    assert files.loads == loads + 2
    assert isinstance(hub.reloading.answer(None, None), Later)
    await eventually(lambda: hub.applied == 3)


async def test_a_service_manager_is_told_when_a_reload_begins_and_how_it_ended(
    files: Files, start: Callable[..., Any], tmp_path: Path
) -> None:
    files.write("ada")
    hub = await start()
    manager = Manager(str(tmp_path / "notify"))
    with closing(manager.socket):
        told = ServiceManager(manager.address)
        told.begin()
        reloading = Reloading(hub.daemon, files.load, lambda: None, told)
        await awaited(reloading.answer(None, None))
        files.write_settings("name = 7")
        with pytest.raises(HubError):
            await awaited(reloading.answer(None, None))
        told.end()
        first, ready, second, rejected = manager.told_so_far()
    assert {one.partition("\n")[0] for one in (first, second)} == {"RELOADING=1"}
    assert ready == "READY=1\nSTATUS="
    assert rejected.startswith("READY=1\nSTATUS=reload rejected: ")


async def test_a_bug(files: Files, start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    files.write("ada")
    hub = await start()
    with monkeypatch.context() as patched:
        patched.setattr(hub.daemon, "prepare", lambda _: 1 / 0)
        with pytest.raises(HubError, match="please report it"):
            await hub.ask()
    assert (await hub.ask())["closed"] == 0


async def test_as_an_admin_asks_for_it(files: Files, start: Callable[..., Any]) -> None:
    files.write("ada", policy=POLICY.replace('ada = ["member"]', 'ada = ["admin"]'))
    hub = await start()
    services = hub.daemon.server.core.requests.hub_services
    services.add("$hub/reload", hub.reloading.answer, for_admins=True)
    async with connect(hub.daemon.endpoints[1].location) as client, client.subscribe("$hub/audit") as audit:
        files.write("ada", queue=200, policy=POLICY.replace('ada = ["member"]', 'ada = ["admin"]'))
        answer = await client.request("$hub/reload", None)
        assert answer == {"changed": ["queue.messages"], "needs_restart": [], "closed": 0}
        files.policy.write_text("[users")
        with pytest.raises(HubError, match="not TOML"):
            await client.request("$hub/reload", None)
        told: list[Any] = []
        while len(told) < 2:
            told += [message.value for message in await audit.batch()]
    assert [(one["what"], one["user"]) for one in told] == [("reload", "ada")] * 2
    assert told[0]["changed"] == ["queue.messages"]
    assert "not TOML" in told[1]["failed"]
