"""Pages of docs/how-to that need no other product: their files and commands do what they say."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.programs import PATIENCE_S, environment_of_shell
from tests.daemon.conftest import StartProcess
from tests.daemon.hub_process import ROOT
from tests.hubs.ports import free_ports


def blocks(page: str, kind: str) -> list[str]:
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text()
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


async def shell(folder: Path, script: str) -> tuple[int, str]:
    if not (folder / "bin").exists():
        environment_of_shell(folder)  # puts a `hub` into it
    shutil.rmtree(folder / "bin")
    done = await asyncio.to_thread(
        subprocess.run,
        ["bash", "-euc", script],
        cwd=folder,
        env=environment_of_shell(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is missing")
async def test_network(start_process: StartProcess, tmp_path: Path) -> None:
    certificate, users, client = (block.replace("hub.example.org", "localhost") for block in blocks("network", "sh"))
    ports = free_ports(2)
    (settings,) = blocks("network", "toml")
    for port, free in zip(("7400", "7401"), ports, strict=True):
        settings = settings.replace(f"0.0.0.0:{port}", f"127.0.0.1:{free}")
        client = client.replace(f":{port}", f":{free}")
    await asyncio.to_thread((tmp_path / "hub.toml").write_text, settings)
    lines = users.splitlines()
    assert (await shell(tmp_path, certificate + "\n".join(lines[:-1])))[0] == 0
    assert lines[-1] == "hub run --config hub.toml"
    before = Path.cwd()
    os.chdir(tmp_path)  # where files of these settings are
    try:
        await (await start_process("--config", "hub.toml")).wait_up(2)
    finally:
        os.chdir(before)
    shutil.copy(tmp_path / "hub.pem", tmp_path / "ca.pem")
    assert await shell(tmp_path, client.replace("hub check\n", "hub check --quiet\n")) == (0, "")
    code, said = await shell(tmp_path, client.replace("sensor-7.token", "dashboard.token"))
    assert code != 0
    assert "not granted to user 'dashboard'" in said


async def test_backup(start_process: StartProcess, tmp_path: Path) -> None:
    journal, restore, store = (block.replace("/backup", "backup") for block in blocks("backup-and-restore", "sh"))
    (tmp_path / "backup").mkdir()
    hub = await start_process(
        *("--listen", f"unix://{tmp_path}/hub.sock", "--journal", str(tmp_path / "journal")),
        *("--store", f"status={tmp_path}/status.db"),
    )
    await hub.wait_up()
    prepare = f"export HUB_URL=unix://{tmp_path}/hub.sock\nhub pub /a 1\nhub store put status k 1\n"
    recorded = 'until hub sub /a --from-offset 0 --limit 1 --timeout 1 | grep -q "/a"; do :; done\n'
    code, said = await shell(tmp_path, prepare + recorded + journal + store)
    assert code == 0, said
    (tmp_path / "journal").rename(tmp_path / "lost")
    code, said = await shell(tmp_path, restore.splitlines()[0])
    assert (code, "sound: 1 records" in said) == (0, True), said


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is missing")
async def test_nginx(start_process: StartProcess, tmp_path: Path) -> None:
    token, run = blocks("nginx", "sh")[0].splitlines()
    (server,) = blocks("nginx", "nginx")
    hub_port, port = free_ports(2)
    _, secret = await shell(tmp_path, token)
    words = run.replace("7401", str(hub_port)).split()[2:]
    paths = {"tokens": str(tmp_path / "tokens"), "admin-token": str(tmp_path / "admin-token")}
    await (await start_process(*(paths.get(word, word) for word in words))).wait_up()
    server = server.replace("listen 443 ssl", f"listen 127.0.0.1:{port}").replace(":7401", f":{hub_port}")
    server = re.sub(r" +ssl_.*\n", "", server)
    temporary = "".join(
        f"{name}_temp_path {tmp_path}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    conf = (
        f"daemon off; pid {tmp_path}/pid; error_log stderr; events {{}} http {{ access_log off; {temporary} {server} }}"
    )
    await asyncio.to_thread((tmp_path / "nginx.conf").write_text, conf)
    nginx = await asyncio.create_subprocess_exec("nginx", "-c", str(tmp_path / "nginx.conf"))
    try:
        url = f"ws://127.0.0.1:{port}"
        export = f"export HUB_TOKEN={secret.strip()}\n"
        while (await shell(tmp_path, f"{export}hub check {url} --quiet"))[0] != 0:
            assert nginx.returncode is None
        code, said = await shell(tmp_path, f"{export}hub sub --url {url} --timeout 0.1 /plant/")
        assert (code, said) == (0, "")
    finally:
        nginx.terminate()
        await nginx.wait()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
async def test_systemd(tmp_path: Path) -> None:
    unit = (
        (ROOT / "examples" / "systemd" / "topichub.service").read_text().replace("/opt/topichub/bin/hub", "/bin/true")
    )
    (tmp_path / "topichub.service").write_text(unit)
    assert await shell(tmp_path, "systemd-analyze verify ./topichub.service") == (0, "")
