"""The starts of docs/security.md: each is run as it stands, but for ports and names of hosts."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
from cyclopts import CycloptsError

from peers.cli.commands import app
from peers.client import connect
from tests.daemon.conftest import StartProcess
from tests.daemon.hub_process import ROOT, HubProcess
from tests.forked import servers
from tests.forked.program import MODULE
from tests.hubs.eventually import eventually

TEXT = (ROOT / "docs" / "security.md").read_text()
PARTS = {
    heading: part for heading, _, part in (one.partition("\n") for one in re.split(r"^## ", TEXT, flags=re.MULTILINE))
}
SITES = PARTS["Two sites with certificates"]


def blocks(part: str, kind: str = "sh") -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)


def commands(part: str, beginning: str = "hub ") -> list[str]:
    return [line for block in blocks(part) for line in block.splitlines() if line.startswith(beginning)]


async def start(start_process: StartProcess, line: str, *more: str, port: int = 0) -> HubProcess:
    line = re.sub(r"0\.0\.0\.0:\d+", "0.0.0.0:0", line).replace("near.example.org:7400", f"localhost:{port}")
    return await start_process(*shlex.split(line)[2:], *more)


async def shell(line: str, **variables: str) -> tuple[int, str]:
    words = [servers.LAUNCHER, "-m", MODULE]
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-euc",
        f'hub() {{ {shlex.join(words)} "$@"; }}\n{line}',
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=os.environ | servers.of_commands().variables | variables,
    )
    said, _ = await process.communicate()
    return await process.wait(), said.decode()


@pytest.mark.parametrize("line", sorted({line for part in PARTS.values() for line in commands(part)}))
def test_every_command_is_understood(line: str) -> None:
    try:
        app.parse_args(shlex.split(line)[1:], print_error=False, exit_on_error=False)
    except CycloptsError as error:
        pytest.fail(f"{line}: {error}")


async def certificates() -> None:
    if shutil.which("openssl") is None:
        pytest.skip("OPENSSL IS MISSING: the certificates of docs/security.md were NOT made")
    make = blocks(SITES)[0].replace("DNS:$site.example.org", "DNS:$site.example.org,DNS:localhost")
    code, said = await shell(make)
    assert code == 0, said


async def test_two_sites(start_process: StartProcess, tmp_path: Path) -> None:
    await certificates()
    await asyncio.to_thread((tmp_path / "policy.toml").write_text, blocks(SITES, "toml")[0])
    near_line, far_line = commands(SITES)
    unix = f"unix://{tmp_path}/near.sock"
    near = await (await start(start_process, near_line, "--listen", unix)).wait_up(2)
    port = near.endpoints[0].port
    far = await (await start(start_process, far_line, "--listen", "tcp://127.0.0.1:0", port=port)).wait_up()
    got: list[tuple[str, object]] = []
    async with (
        connect(unix) as operator,
        connect(far.endpoints[0].location) as sensor,
        operator.subscribe("/") as messages,
        sensor.subscribe("/control") as orders,
    ):

        async def read() -> None:
            async for message in messages:
                got.append((message.topic, message.value))  # noqa: PERF401 -- it is looked at meanwhile

        reading = asyncio.get_running_loop().create_task(read())
        while not got:  # the link comes about by itself
            await sensor.publish("/other", 1)
            await sensor.publish("/zeek/dns", 2)
            await asyncio.sleep(0.05)
        await operator.publish("/private", 3)
        await operator.publish("/control/stop", 4)
        assert (await anext(orders)).value == 4
        await eventually(lambda: ("/control/stop", 4) in got)
        reading.cancel()
    assert {topic for topic, _ in got} == {"/zeek/dns", "/private", "/control/stop"}
