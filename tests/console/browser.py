"""Headless Chromium over the Chrome DevTools Protocol: the process, a connection to it, and a page (an `Engine`)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from websockets.asyncio.client import ClientConnection, connect

from tests.console.engine import JavaScriptError

START_S = 60
"""How long Chromium may take to start: a first start on a busy machine takes some seconds."""

COMMAND_S = 60
"""How long one command may take."""

LARGEST_ANSWER_BYTES = 256 * 1024 * 1024
"""Pictures come as base64 within one message."""

_POLL_S = 0.02

_FLAGS = (
    "--headless",
    "--no-sandbox",  # tests run as root in containers
    "--disable-gpu",
    "--disable-software-rasterizer",
    "--in-process-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",  # containers have 64 MB there
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Processes that wait in case somebody opens a page, or comes back to one, cost more than the tests themselves.
    "--disable-features=SpareRendererForSitePerProcess,BackForwardCache",
    "--window-size=1280,800",
    "--remote-debugging-port=0",
)


def chromium_path() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Chromium:
    def __init__(self, path: str, profile: Path) -> None:
        self._process = subprocess.Popen(
            [path, *_FLAGS, f"--user-data-dir={profile}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            self.url = self._wait_url(profile / "DevToolsActivePort")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(START_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait_url(self, told: Path) -> str:
        give_up = time.monotonic() + START_S
        while time.monotonic() < give_up:
            if self._process.poll() is not None:
                raise RuntimeError(f"chromium ended with exit code {self._process.returncode} instead of starting")
            lines = told.read_text().splitlines() if told.exists() else []
            if len(lines) == 2:
                return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
            time.sleep(_POLL_S)
        raise RuntimeError(f"chromium did not tell its port within {START_S} s")


class Browser:
    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._pages: dict[str, Callable[[str, dict[str, Any]], None]] = {}
        self._last_id = 0

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, url: str) -> AsyncIterator[Self]:
        async with connect(url, max_size=LARGEST_ANSWER_BYTES, ping_interval=None, compression=None) as connection:
            browser = cls(connection)
            reader = asyncio.create_task(browser._read())
            try:
                yield browser
            finally:
                reader.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await reader

    async def command(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        self._last_id += 1
        answer = asyncio.get_running_loop().create_future()
        self._answers[self._last_id] = answer
        message = {"id": self._last_id, "method": method, "params": parameters}
        await self._connection.send(json.dumps(message | ({"sessionId": session} if session else {})))
        async with asyncio.timeout(COMMAND_S):
            result: dict[str, Any] = await answer
        return result

    @contextlib.asynccontextmanager
    async def reuse_tab(self, url: str, *, width_px: int = 0) -> AsyncIterator[Page]:
        """Go to an address in the one tab that Chromium began with; leave it after the block.

        No JavaScript sees what was there before, and connections and timers end with the block. Cookies, the cache and
        what a page keeps stay for a hub at the same port. A page in a context of its own would cost a process, a second
        of work.
        """
        targets = (await self.command("Target.getTargets"))["targetInfos"]
        first = next(target for target in targets if target["type"] == "page")
        async with self._attached(first["targetId"]) as page:
            if width_px:
                await page.resize(width_px, 800)
            await page.go(url)
            try:
                yield page
            finally:
                await page.go("about:blank")

    @contextlib.asynccontextmanager
    async def _attached(self, target: str) -> AsyncIterator[Page]:
        attached = await self.command("Target.attachToTarget", targetId=target, flatten=True)
        page = Page(self, attached["sessionId"])
        self._pages[page.session] = page.receive_event
        try:
            for domain in ("Page", "Runtime", "Log"):
                await self.command(f"{domain}.enable", page.session)
            yield page
        finally:
            del self._pages[page.session]

    async def _read(self) -> None:
        async for text in self._connection:
            message = json.loads(text)
            answer = self._answers.pop(message.get("id", 0), None)
            if answer is None:
                receive = self._pages.get(message.get("sessionId", ""))
                if receive is not None:
                    receive(message["method"], message["params"])
            elif not answer.done():
                if "error" in message:
                    answer.set_exception(RuntimeError(f"chromium: {message['error']['message']}"))
                else:
                    answer.set_result(message["result"])


@dataclass(slots=True)
class Page:
    browser: Browser
    session: str
    complaints: list[str] = field(default_factory=list)
    _loaded: asyncio.Event = field(default_factory=asyncio.Event)

    async def go(self, url: str) -> None:
        """Go to an address and wait until it is loaded, its modules included."""
        self._loaded.clear()
        answer = await self.browser.command("Page.navigate", self.session, url=url)
        if "errorText" in answer:
            raise RuntimeError(f"cannot open {url}: {answer['errorText']}")
        async with asyncio.timeout(COMMAND_S):
            await self._loaded.wait()

    async def evaluate(self, body: str, **arguments: Any) -> Any:
        values = ", ".join(json.dumps(value) for value in arguments.values())
        answer = await self.browser.command(
            "Runtime.evaluate",
            self.session,
            expression=f"(async ({', '.join(arguments)}) => {{ {body}\n }})({values})",
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        if "exceptionDetails" in answer:
            raise JavaScriptError(_described(answer["exceptionDetails"]))
        return answer["result"].get("value")

    async def load_by(self, body: str, **arguments: Any) -> None:
        self._loaded.clear()
        with contextlib.suppress(RuntimeError):  # there may be nobody left to answer
            await self.evaluate(body, **arguments)
        async with asyncio.timeout(COMMAND_S):
            await self._loaded.wait()

    async def prefer(self, scheme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.browser.command("Emulation.setEmulatedMedia", self.session, features=features)

    async def resize(self, width_px: int, height_px: int) -> None:
        size = {"width": width_px, "height": height_px, "deviceScaleFactor": 1, "mobile": False}
        await self.browser.command("Emulation.setDeviceMetricsOverride", self.session, **size)

    def receive_event(self, method: str, parameters: dict[str, Any]) -> None:
        match method:
            case "Page.loadEventFired":
                self._loaded.set()
            case "Runtime.exceptionThrown":
                self.complaints.append(_described(parameters["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if parameters["type"] in {"error", "warning", "assert"}:
                shown = [str(it.get("value", it.get("description", ""))) for it in parameters["args"]]
                self.complaints.append(" ".join(shown))
            case "Log.entryAdded" if parameters["entry"]["level"] in {"error", "warning"}:
                entry = parameters["entry"]
                self.complaints.append(f"{entry['text']} {entry.get('url', '')}".strip())


def _described(details: dict[str, Any]) -> str:
    exception = details.get("exception", {})
    return str(exception.get("description") or exception.get("value") or details["text"])
