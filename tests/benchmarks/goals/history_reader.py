"""A process that reads a hub's journal again and again, as fast as it goes, until its standard input ends.

    python -m tests.benchmarks.goals.history_reader URL

It says "reading" when it begins, and in the end how often it has read all of it, as a whole number.
"""

from __future__ import annotations

import asyncio
import sys

from peers.client import connect


async def _read(url: str) -> int:
    """Read until there is nothing more on standard input; return how often everything was read."""
    stopped = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    passes = 0
    async with connect(url) as client:
        print("reading", flush=True)  # noqa: T201 -- a line that the benchmark waits for
        while not stopped.done():
            async for _ in client.read().blocks():
                if stopped.done():
                    return passes
            passes += 1
    return passes


def main() -> None:
    print(asyncio.run(_read(sys.argv[1])))  # noqa: T201 -- the answer


if __name__ == "__main__":
    main()
