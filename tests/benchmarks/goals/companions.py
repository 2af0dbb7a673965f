"""Processes beside what is measured, each until its standard input ends.

    python -m tests.benchmarks.goals.companions KIND URL NUMBER

churn     one client subscribes and unsubscribes, NUMBER pairs a second; each request is a frame, and confirmed
history   reads the hub's journal again and again, as fast as it goes
hubs      NUMBER hubs link with it and want topics that nobody publishes to

It writes a line when it has begun, and in the end figures, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import select
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

from peers.bench.line import Layout, Line, dial
from peers.bench.processes import BenchError, child_environment
from peers.client import connect
from peers.embedding import Hub
from peers.wire.control import encode_subscription
from peers.wire.kinds import Kind

_KEPT = 100
"""So many prefixes of a churn are alive at a time."""

_LOOK_S = 0.05
_LAYOUT = Layout("/churn/", 1, 16, 1)
"""The layout of messages that never come."""


@contextmanager
def companion(kind: str, url: str, number: float) -> Iterator[dict[str, float]]:
    """Run one for as long as the block lasts; then its figures are in the dictionary. 0: there is none."""
    figures: dict[str, float] = {}
    if not number:
        yield figures
        return
    command = [sys.executable, "-m", "tests.benchmarks.goals.companions", kind, url, str(number)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=child_environment())
    try:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise BenchError(f"the process beside it ({kind}) did not start")
        yield figures
    finally:
        said, _ = process.communicate()
        figures |= json.loads(said or b"{}")


def _begun() -> None:
    print("begun", flush=True)  # noqa: T201 -- a line that the benchmark waits for


class _Churner:
    def __init__(self, line: Line, pairs_per_s: float) -> None:
        self._line = line
        self._pairs_per_s = pairs_per_s
        self._began_s = time.monotonic()
        self._pairs = self._requests = self._confirmed = 0
        self._alive: deque[str] = deque()

    def run(self) -> dict[str, float]:
        """Churn until standard input ends; return what was done once all of it is confirmed."""
        poll = select.poll()
        poll.register(self._line.fileno(), select.POLLIN)
        poll.register(0, select.POLLIN | select.POLLHUP)
        while True:
            due_s = self._began_s + (self._pairs + 1) / self._pairs_per_s - time.monotonic()
            ready = [descriptor for descriptor, _ in poll.poll(max(0.0, 1000 * due_s))]
            if 0 in ready:
                poll.unregister(0)
                break
            if ready:
                self._read()
            self._send()
        elapsed_s = time.monotonic() - self._began_s
        while self._confirmed < self._requests:
            poll.poll()
            self._read()
        return {"requests": self._requests, "confirmed": self._confirmed, "elapsed_s": elapsed_s}

    def _send(self) -> None:
        due = int((time.monotonic() - self._began_s) * self._pairs_per_s)
        requests = []
        while self._pairs < due:
            self._pairs += 1
            prefix = f"{_LAYOUT.prefix}{self._pairs:09}/"
            self._alive.append(prefix)
            requests.append(self._request(Kind.SUBSCRIBE, prefix))
            if len(self._alive) > _KEPT:
                requests.append(self._request(Kind.UNSUBSCRIBE, self._alive.popleft()))
        if requests:
            self._line.socket.sendall(b"".join(requests))

    def _request(self, kind: Kind, prefix: str) -> bytes:
        self._requests += 1
        return encode_subscription(kind, [prefix], self._requests)

    def _read(self) -> None:
        self._confirmed += sum(control.word == "confirmed" for control in self._line.listen())


def _churn(url: str, pairs_per_s: float) -> dict[str, float]:
    line = dial(url, _LAYOUT, "bench churner")
    line.socket.settimeout(None)
    _begun()
    return _Churner(line, pairs_per_s).run()


async def _history(url: str) -> dict[str, float]:
    stopped = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    passes = 0
    async with connect(url) as client:
        _begun()
        while not stopped.done():
            async for _ in client.read().blocks():
                if stopped.done():
                    return {"passes": passes}
            passes += 1
    return {"passes": passes}


async def _hubs(url: str, count: int) -> dict[str, float]:
    stopped = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    async with AsyncExitStack() as stack:
        for number in range(count):
            hub = await stack.enter_async_context(Hub(peers=[url], name=f"bench peer {number}"))
            client = await stack.enter_async_context(hub.connect())
            await stack.enter_async_context(client.subscribe(f"/links/{number:06}/"))
            while len(await client.request("$hub/mesh/graph", {})) <= 1:  # noqa: ASYNC110 -- nobody tells of it
                await asyncio.sleep(_LOOK_S)
        _begun()
        await stopped
    return {}


def main() -> None:
    kind, url, number = sys.argv[1:]
    if kind == "churn":
        figures = _churn(url, float(number))
    else:
        figures = asyncio.run(_history(url) if kind == "history" else _hubs(url, int(number)))
    print(json.dumps(figures))  # noqa: T201 -- the answer


if __name__ == "__main__":
    main()
