"""A hub in a process of its own, as a user starts it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from peers.transport.endpoints import Endpoint
from tests.forked.program import HUB, AwaitedProgram
from tests.forked.servers import python_path

ROOT = Path(__file__).parents[2]

# So much of what a hub says is kept for a test that asks for it: a hub drops lines that nobody takes.
OUTPUT_BYTES = 1 << 30


class HubProcess:
    def __init__(self, process: asyncio.subprocess.Process | AwaitedProgram) -> None:
        self._process = process
        self.name = ""
        self.endpoints: list[Endpoint] = []
        self.page = ""
        self.log: list[dict[str, Any]] = []

    @classmethod
    async def start(
        cls,
        arguments: Sequence[str],
        variables: Mapping[str, str],
        descriptors: int | None = None,
        stderr: int = asyncio.subprocess.PIPE,
        stdout: int = asyncio.subprocess.PIPE,
        *,
        before: Sequence[str] = (),
        is_new: bool = False,
    ) -> HubProcess:
        if descriptors is not None:
            before = (*before, "sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh")
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HUB_")}
        given: dict[str, Any] = {
            "stdout": stdout,
            "stderr": stderr,
            "limit": OUTPUT_BYTES,
            "env": clean | python_path() | dict(variables),
        }
        if is_new or before:
            return cls(await asyncio.create_subprocess_exec(*before, *HUB, "run", *arguments, **given))
        return cls(await AwaitedProgram.start("run", *arguments, **given))

    @property
    def pid(self) -> int:
        return self._process.pid

    async def wait_up(self, endpoints: int = 1) -> HubProcess:
        assert self._process.stdout is not None
        up = (await self._process.stdout.readline()).decode()
        assert up.startswith("topichub "), (up, await self.wait_ended())
        self.name = up.split("'")[1]
        for _ in range(endpoints):
            words = (await self._process.stdout.readline()).decode().split()
            assert words[:-1] == ["listens", "on"], words
            self.endpoints.append(Endpoint.parse(words[-1]))
        for _ in range(sum(endpoint.scheme.is_websocket for endpoint in self.endpoints)):
            word, self.page = (await self._process.stdout.readline()).decode().split()
            assert word == "page"
        return self

    async def wait_logged(self, event: str) -> dict[str, Any]:
        assert self._process.stderr is not None
        while True:
            line = json.loads(await self._process.stderr.readline())
            self.log.append(line)
            if line["event"] == event:
                return dict(line)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def wait_ended(self) -> tuple[int, str]:
        rest = await self._rest_of_stderr() if self._process.stderr is not None else ""
        return await self._process.wait(), rest

    async def _rest_of_stderr(self) -> str:
        assert self._process.stderr is not None
        return (await self._process.stderr.read()).decode()

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.communicate()
