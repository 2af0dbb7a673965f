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

from peers.bench.line import Layout, dial
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


def _churn(url: str, pairs_per_s: float) -> dict[str, float]:
    """Churn until standard input ends; return what was done once all of it is confirmed."""
    line = dial(url, _LAYOUT, "bench churner")
    line.socket.settimeout(None)
    _begun()
    poll = select.poll()
    poll.register(line.fileno(), select.POLLIN)
    poll.register(0, select.POLLIN | select.POLLHUP)
    began_s = time.monotonic()
    alive: deque[str] = deque()
    pairs = requests = confirmed = 0
    is_churning = True
    while is_churning or confirmed < requests:
        due_s = began_s + (pairs + 1) / pairs_per_s - time.monotonic()
        ready = {descriptor for descriptor, _ in poll.poll(max(0.0, 1000 * due_s) if is_churning else None)}
        if 0 in ready:
            poll.unregister(0)
            is_churning = False
            elapsed_s = time.monotonic() - began_s
        if line.fileno() in ready:
            confirmed += sum(control.word == "confirmed" for control in line.listen())
        frames = []
        while is_churning and pairs < int((time.monotonic() - began_s) * pairs_per_s):
            pairs += 1
            alive.append(f"{_LAYOUT.prefix}{pairs:09}/")
            changes = [(Kind.SUBSCRIBE, alive[-1])]
            if len(alive) > _KEPT:
                changes.append((Kind.UNSUBSCRIBE, alive.popleft()))
            for kind, prefix in changes:
                requests += 1
                frames.append(encode_subscription(kind, [prefix], requests))
        if frames:
            line.socket.sendall(b"".join(frames))
    return {"requests": requests, "confirmed": confirmed, "elapsed_s": elapsed_s}


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
