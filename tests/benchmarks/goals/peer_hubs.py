"""A process with hubs that link with one and want topics that nobody publishes to, until its standard input ends.

    python -m tests.benchmarks.goals.peer_hubs URL COUNT

It says "linked" when each of them knows the hub.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

from peers.bench.running_hub import child_environment
from peers.bench.worker import BenchError
from peers.embedding import Hub

_LOOK_S = 0.05


@contextmanager
def peer_hubs(url: str, count: int) -> Iterator[None]:
    if not count:
        yield
        return
    command = [sys.executable, "-m", "tests.benchmarks.goals.peer_hubs", url, str(count)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=child_environment())
    try:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise BenchError("the peer hubs did not start")
        yield
    finally:
        process.communicate()


async def _stand_by(url: str, count: int) -> None:
    stopped = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    async with AsyncExitStack() as stack:
        for number in range(count):
            hub = await stack.enter_async_context(Hub(peers=[url], name=f"bench peer {number}"))
            client = await stack.enter_async_context(hub.connect())
            await stack.enter_async_context(client.subscribe(f"/links/{number:06}/"))
            while len(await client.request("$hub/mesh/graph", {})) <= 1:  # noqa: ASYNC110 -- nobody tells of it
                await asyncio.sleep(_LOOK_S)
        print("linked", flush=True)  # noqa: T201 -- a line that the benchmark waits for
        await stopped


if __name__ == "__main__":
    asyncio.run(_stand_by(sys.argv[1], int(sys.argv[2])))
