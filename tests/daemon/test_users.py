"""Users of a hub as a process: who is let in, and what a reload of their files changes."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hub.errors import CloseCode, NotRecognisedError
from peers.users.tokens import TokenFile
from peers.wire.control import decode_close
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from tests.daemon.conftest import StartProcess
from tests.daemon.hub_process import HubProcess
from tests.hubs.raw_client import RawClient
from tests.users.keys import jwk, jwks, token

POLICY = """
[roles.sensor]
publish = ["/zeek"]
subscribe = { allow = ["/control"], deny = ["/control/secret"] }

[users]
alice = ["sensor"]
dora = ["reader"]

[certificates]
"CN=alice" = "alice"

[unix]
4242 = "alice"
"""

NOT_RELOADED = "settings not reloaded, the old ones stay"


class Site:
    def __init__(self, folder: Path) -> None:
        self.policy, self.keys, self.tokens = folder / "policy.toml", folder / "jwks.json", folder / "tokens"
        self.policy.write_text(POLICY)
        jwks(self.keys, jwk("HS256"), jwk("ES256"))
        self.keys.write_text(json.dumps(json.loads(self.keys.read_text()), indent=1))
        self.token, self.entry = TokenFile(str(self.tokens)).add("alice", datetime.now(UTC))
        claims = {"iss": "i", "aud": "hub", "sub": "dora", "exp": time.time() + 3600}
        self.jwt = token(claims)
        (folder / "hub.toml").write_text(
            'listen = ["tcp://127.0.0.1:0"]\n[log]\nformat = "json"\n[access]\npolicy = "policy.toml"\n'
            'tokens = "tokens"\njwt_keys = "jwks.json"\njwt_issuer = "i"\njwt_audience = "hub"\n'
        )

    def broken(self) -> Iterator[tuple[Path, str, str]]:
        for file in (self.policy, self.tokens, self.keys):
            whole = file.read_text()
            lines = whole.splitlines()
            for number, line in enumerate(lines):
                if line.strip() and not line.startswith("#"):
                    yield (
                        file,
                        "\n".join([*lines[:number], line.rstrip(",")[:-1] + "\x7f", *lines[number + 1 :]]),
                        whole,
                    )


@pytest.fixture
def site(nowhere: None, tmp_path: Path) -> Site:  # noqa: ARG001 -- it changes the working directory
    return Site(tmp_path)


async def is_let_in(hub: HubProcess, shown: str) -> bool:
    client = await RawClient.connect(hub.endpoints[0])
    try:
        await client.send(Hello(protocol=1, role="client", token=shown).encode())
        answer = await client.frame()
        if answer.kind == Kind.CLOSE:
            assert decode_close(answer.body) == (CloseCode.NOT_RECOGNISED, NotRecognisedError().text)
        return answer.kind == Kind.HELLO
    finally:
        client.close()


async def test_who_is_let_in(site: Site, start_process: StartProcess) -> None:
    hub = await (await start_process()).wait_up()
    assert await is_let_in(hub, site.token)
    assert await is_let_in(hub, site.jwt)
    for shown in ("", site.token[:-1], site.jwt[:-4]):
        assert not await is_let_in(hub, shown)
        line = await hub.wait_logged("not recognised")
        assert not shown or shown not in str(line)


async def test_a_broken_file_changes_nothing(site: Site, start_process: StartProcess) -> None:
    hub = await (await start_process()).wait_up()
    for file, text, whole in site.broken():
        file.write_text(text)
        hub.signal(signal.SIGHUP)
        line = await hub.wait_logged(NOT_RELOADED)
        assert line["reason"].startswith(f"{file.name}: "), line
        assert line["reason"].isprintable()
        file.write_text(whole)
        assert await is_let_in(hub, site.token)
        assert await is_let_in(hub, site.jwt)
    hub.signal(signal.SIGHUP)
    await hub.wait_logged("settings reloaded")
    assert await is_let_in(hub, site.token)
    assert not any(site.token in str(line) or site.jwt in str(line) for line in hub.log)


async def test_files_are_read_again(site: Site, start_process: StartProcess) -> None:
    hub = await (await start_process()).wait_up()
    tokens = TokenFile(str(site.tokens))
    tokens.revoke(site.entry.id)
    fresh, _ = tokens.add("alice", datetime.now(UTC))
    jwks(site.keys, jwk("ES256"))
    assert await is_let_in(hub, site.token)
    assert not await is_let_in(hub, fresh)
    hub.signal(signal.SIGHUP)
    await hub.wait_logged("settings reloaded")
    assert not await is_let_in(hub, site.token)
    assert not await is_let_in(hub, site.jwt)
    assert await is_let_in(hub, fresh)
