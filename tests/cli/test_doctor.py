"""`hub doctor`: each thing that is wrong is found, with a fix; the bundle has no secrets."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from peers.daemon.doctor import State, examine
from peers.daemon.sources import load
from peers.embedding import Hub
from tests.cli.programs import hub
from tests.hubs.ports import free_ports

NOW = datetime.now(UTC)


def found(tree: dict[str, Any], is_hub: bool = False) -> dict[str, tuple[State, str, str]]:  # noqa: FBT001, FBT002
    """Return state, text and fix by check, of settings that listen on a free port unless they say where."""
    loaded = load({"listen": ["tcp://127.0.0.1:0"]} | tree, {}, None)
    return {one.check: (one.state, one.text, one.fix) for one in examine(loaded, lambda _: is_hub)}


def test_a_sound_installation(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    checks = found(
        {"listen": [f"tcp://127.0.0.1:{port}"], "journal": {"path": str(tmp_path / "journal"), "keep_bytes": "1MiB"}}
    )
    checks.pop("clock", None)  # this machine's, which may be wrong
    checks.pop("account", None)
    assert {state for state, *_ in checks.values()} == {State.OK}
    assert set(checks) >= {"program", "users", "journal.path", "open files", "memory", f"listen tcp://127.0.0.1:{port}"}
    assert not (tmp_path / "journal").exists(), "it makes nothing"


@pytest.mark.parametrize("is_hub", [True, False])
def test_a_port_in_use_is_fine_if_a_hub_has_it(is_hub: bool) -> None:  # noqa: FBT001
    with socket.create_server(("127.0.0.1", 0)) as other:
        url = f"tcp://127.0.0.1:{other.getsockname()[1]}"
        state, text, fix = found({"listen": [url]}, is_hub)[f"listen {url}"]
    assert (state, text) == (
        (State.OK, "a hub runs there") if is_hub else (State.ERROR, "another program has this port")
    )
    assert ("ss -ltnp" in fix) != is_hub


def test_listeners_on_a_network() -> None:
    (port,) = free_ports(1)
    checks = found({"listen": [f"tcp://0.0.0.0:{port}", "tcp://192.0.2.1:7400"], "access": {"anonymous": "admin"}})
    assert checks[f"listen tcp://0.0.0.0:{port}"][0] is State.WARNING
    assert (
        "unencrypted" in checks[f"listen tcp://0.0.0.0:{port}"][1]
        or "without credentials" in checks[f"listen tcp://0.0.0.0:{port}"][1]
    )


def test_unix_sockets_and_peers(tmp_path: Path) -> None:
    there, missing = f"unix://{tmp_path}/hub.sock", f"unix://{tmp_path}/no/hub.sock"
    checks = found({"listen": [there, missing], "peers": [f"tcp://127.0.0.1:{free_ports(1)[0]}"]})
    assert checks[f"listen {there}"][0] is State.OK
    assert checks[f"listen {missing}"][0] is State.ERROR
    ((state, _, fix),) = (one for check, one in checks.items() if check.startswith("peer "))
    assert state is State.WARNING
    assert "firewall" in fix


@pytest.mark.parametrize(
    ("ends", "state"),
    [(timedelta(days=90), State.OK), (timedelta(days=9), State.WARNING), (timedelta(days=-1), State.ERROR)],
    ids=["valid", "ends soon", "ended"],
)
def test_certificates(tmp_path: Path, ends: timedelta, state: State) -> None:
    authority = trustme.CA()
    made = authority.issue_cert("localhost", not_before=NOW - timedelta(days=10), not_after=NOW + ends)
    certificate, key = tmp_path / "hub.pem", tmp_path / "hub.key"
    made.cert_chain_pems[0].write_to_path(certificate)
    made.private_key_pem.write_to_path(key)
    key.chmod(0o644)
    checks = found({"tls": {"certificate": str(certificate), "key": str(key)}})
    assert checks[f"tls.certificate {certificate}"][0] is state
    assert checks["tls.key"] == (State.WARNING, f"{key}: other accounts may read it", f"chmod 600 {key}")
    certificate.write_text("no certificate")
    assert found({"tls": {"certificate": str(certificate), "key": str(key)}})["tls"][0] is State.ERROR


def test_files_disk_limits_and_memory(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("[users]\nann = ['nobody-knows-this-role']\n")
    checks = found(
        {
            "journal": {"path": str(tmp_path / "none" / "journal")},
            "stores": {"open": [f"status={tmp_path}/none/status.db", "cache=:memory:"]},
            "access": {"policy": str(tmp_path / "policy.toml")},
            "limits": {"connections": 1_000_000, "memory_bytes": "1000GiB"},
        }
    )
    assert {check: state for check, (state, *_) in checks.items() if state is State.ERROR} == dict.fromkeys(
        ("users", "journal.path", "store status"), State.ERROR
    )
    assert checks["memory"][0] is State.WARNING
    assert all(fix for state, _, fix in checks.values() if state is not State.OK)
    assert (
        found({"journal": {"path": str(tmp_path / "journal"), "keep_bytes": "1000000GiB"}})["journal.path"][0]
        is State.WARNING
    )


def test_the_command_and_its_exit_code(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    quiet = ("--listen", f"tcp://127.0.0.1:{port}")
    done = hub("doctor", *quiet, "--json")
    states = {json.loads(line)["state"] for line in done.stdout.splitlines()}
    assert done.returncode == (1 if "warning" in states else 0)
    done = hub("doctor", *quiet, "--journal", str(tmp_path / "none" / "journal"))
    assert done.returncode == 2
    assert b"fix: mkdir -p" in done.stdout
    done = hub("doctor", "--queue-messages", "many")
    assert (done.returncode, done.stderr) == (2, b"")
    assert b"hub check-config --explain" in done.stdout


async def test_the_bundle_of_a_running_hub_has_no_secrets(tmp_path: Path) -> None:
    port, tcp_port = free_ports(2)
    (tmp_path / "admin.token").write_text(f"hub_{'secret' * 8}\n")
    (tmp_path / "admin.token").chmod(0o600)
    listen = [f"ws://127.0.0.1:{port}", f"tcp://127.0.0.1:{tcp_port}"]
    settings = {"listen": listen, "access": {"admin_token": str(tmp_path / "admin.token")}}
    async with Hub(settings=settings):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "peers.cli", "doctor", "--bundle", str(tmp_path / "support.tar.gz"),
            *(f"--listen={url}" for url in listen), "--access-admin-token", str(tmp_path / "admin.token"),
            env=os.environ | {"HUB_TOKEN": "another-secret"}, stdout=subprocess.PIPE,
        )  # fmt: skip
        output, _ = await process.communicate()
    assert output.count(b"a hub runs there") == len(listen)
    with tarfile.open(tmp_path / "support.tar.gz") as archive:
        files = {name.rpartition("/")[2]: archive.extractfile(name) for name in archive.getnames()}
        texts = {name: file.read() for name, file in files.items() if file is not None}
    assert {"findings.json", "settings.json", "versions.json", f"readyz-{port}.txt"} <= set(texts)
    assert texts[f"readyz-{port}.txt"].startswith(b"200 ")
    assert b"HUB_TOKEN" in texts["environment.json"]
    assert not [name for name, text in texts.items() if b"secret" in text.replace(b"secrets", b"")]
    assert (tmp_path / "support.tar.gz").stat().st_mode & 0o777 == 0o600
