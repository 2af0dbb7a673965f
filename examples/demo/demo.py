"""Two hubs with a journal, sensors, readers, and some of them too slow: something to look at in a hub's page.

    python examples/demo/demo.py [--rate 1000] [--seconds 0]

Everything is on this machine, in a folder that is deleted at the end. It ends with Ctrl-C. README.md, beside this file,
says what to look at.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import math
import random
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

from hub.limits import Overflow
from peers.client import Client, HubError, QueueWish, connect

SENSORS = 20
"""At each hub."""

TICK_S = 0.1

START_S = 60.0
"""How long a hub may take until it answers."""

SLOW_QUEUE = QueueWish(messages=5_000, bytes=4_000_000, overflow=Overflow.DROP_OLDEST)

SLOW_BUFFER_BYTES = 65_536

NOTE = "made up by examples/demo, as long as what real sensors send; " * 4


class HubEndedError(Exception):
    """A hub has ended by itself, or does not answer; it has said why."""


@contextlib.asynccontextmanager
async def running_hub(name: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a hub for as long as the block lasts. Ctrl-C reaches this program alone, which ends the hubs last."""
    command = ("-m", "peers.cli", "run", "--name", name, "--log-level", "error", *arguments)
    hub = await asyncio.create_subprocess_exec(sys.executable, *command, start_new_session=True)
    try:
        yield hub
    finally:
        if hub.returncode is None:
            hub.terminate()
        await hub.wait()


async def wait_answers(url: str, hub: asyncio.subprocess.Process) -> None:
    """Wait until a hub answers.

    Raises:
        HubEndedError: It has ended, or takes too long.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(START_S):
            while hub.returncode is None:
                with contextlib.suppress(HubError):
                    async with connect(url, name="demo"):
                        return
                await asyncio.sleep(0.1)
    raise HubEndedError(f"the hub at {url} did not start; what is above says why")


async def publish_readings(client: Client, site: str, rate: float) -> None:
    """Publish readings of `SENSORS` sensors, now more and now less of them."""
    for tick in itertools.count():
        burst = 1 + 0.4 * math.sin(tick / 50)
        for number in range(SENSORS):
            for _ in range(max(1, round(rate * burst * TICK_S / SENSORS))):
                value = {
                    "celsius": round(60 + 9 * math.sin(tick / 90 + number), 2),
                    "rpm": 1_200 + number,
                    "note": NOTE,
                }
                client.publish_nowait(f"/plant/{site}/press-{number:02}/reading", value)
        await asyncio.sleep(TICK_S)


async def publish_orders(client: Client) -> None:
    """Publish an order now and then."""
    for number in itertools.count():
        await client.publish("/orders/new", {"order": number, "pieces": random.randint(1, 40)})  # noqa: S311 -- a demo
        await asyncio.sleep(0.2)


async def read(client: Client, prefix: str, pause_s: float) -> None:
    """Read what comes; whoever pauses after each batch is too slow for what comes meanwhile."""
    async with client.subscribe(prefix, buffer_bytes=SLOW_BUFFER_BYTES) as messages:
        while True:
            if not await messages.batch():
                return
            await asyncio.sleep(pause_s)


async def consume(client: Client, name: str, prefix: str, pause_s: float) -> None:
    """Work through the journal by a name, a message at a time."""
    async with client.consume(name, prefix) as messages:
        async for message in messages:
            await asyncio.sleep(pause_s)
            await message.ack()


async def convert(client: Client) -> None:
    """Answer requests, under a name that others find."""
    await client.claim("org.example.plant.Converter", ["demo"])
    async with client.serve("/convert/", lambda request: round(request.value * 9 / 5 + 32, 1)):
        await asyncio.Event().wait()


async def ask(client: Client) -> None:
    """Ask for a conversion once a second; at first there may be nobody who answers."""
    while True:
        with contextlib.suppress(HubError):
            await client.request("/convert/fahrenheit", 60.5)
        await asyncio.sleep(1.0)


async def play(options: argparse.Namespace, folder: Path) -> None:
    """Start everything, and let it run."""
    east, west = f"tcp://127.0.0.1:{options.east}", f"tcp://127.0.0.1:{options.west}"
    # Slow readers come over a Unix socket, where the kernel keeps little: what they do not read waits in the hub.
    slow = f"unix://{folder}/hub.sock"
    east_flags = ("--listen", east, "--listen", f"ws://127.0.0.1:{options.east_page}", "--listen", slow)
    kept = ("--journal", f"{folder}/journal", "--store", "last=:memory:", "--store-from", "last=/plant/east/")
    west_flags = ("--listen", west, "--listen", f"ws://127.0.0.1:{options.west_page}", "--peer", east)
    plays: list[tuple[str, str, Callable[[Client], Coroutine[Any, Any, None]]]] = [
        (east, "sensors east", lambda client: publish_readings(client, "east", options.rate / 2)),
        (west, "sensors west", lambda client: publish_readings(client, "west", options.rate / 2)),
        (west, "shop", publish_orders),
        *((east, f"panel-{number}", lambda client: read(client, "/plant/", 0.0)) for number in range(1, 4)),
        (west, "panel-4", lambda client: read(client, "/plant/east/", 0.0)),
        (slow, "report", lambda client: read(client, "/plant/", 5.0)),
        (slow, "tablet", lambda client: read(client, "/plant/west/", 3.0)),
        (east, "billing", lambda client: consume(client, "billing", "/orders/", 0.0)),
        (east, "quality", lambda client: consume(client, "quality", "/plant/east/press-0", 0.05)),
        (east, "converter", convert),
        (west, "thermometer", ask),
    ]
    async with running_hub("east", *east_flags, *kept) as first, running_hub("west", *west_flags) as second:
        await wait_answers(east, first)
        await wait_answers(west, second)
        async with contextlib.AsyncExitStack() as stack:
            acting = []
            for url, name, act in plays:
                queue = SLOW_QUEUE if url == slow else QueueWish()
                client = await stack.enter_async_context(connect(url, name=name, queue=queue))
                acting.append(asyncio.create_task(act(client), name=name))
            print(
                f"Open http://127.0.0.1:{options.east_page}/ to see who is slow, and why. Ctrl-C ends it.", flush=True
            )
            try:
                await wait_end(
                    [*acting, *(asyncio.create_task(one.wait()) for one in (first, second))], options.seconds
                )
            finally:
                for task in acting:
                    task.cancel()
                await asyncio.gather(*acting, return_exceptions=True)


async def wait_end(tasks: list[asyncio.Task[Any]], seconds: float) -> None:
    """Wait until the time is over; a hub, or one of those who act, ends before that only by a failure.

    Raises:
        HubError: Of who acts.
        HubEndedError: A hub has ended.
    """
    done, others = await asyncio.wait(tasks, timeout=seconds or None, return_when=asyncio.FIRST_COMPLETED)
    for one in others:
        one.cancel()
    for one in done:
        one.result()
        raise HubEndedError("a hub has ended")


async def main(options: argparse.Namespace) -> None:
    """Run the demo until it is over, or was asked to end."""
    with tempfile.TemporaryDirectory(prefix="hub-demo-") as folder, contextlib.suppress(asyncio.CancelledError):
        playing = asyncio.ensure_future(play(options, Path(folder)))
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, playing.cancel)
        await playing


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Two hubs, sensors, and readers of whom some are too slow.")
    parser.add_argument("--east", type=int, default=7400, help="port of the first hub [7400]")
    parser.add_argument("--east-page", type=int, default=7401, help="port of its page [7401]")
    parser.add_argument("--west", type=int, default=7500, help="port of the second hub [7500]")
    parser.add_argument("--west-page", type=int, default=7501, help="port of its page [7501]")
    parser.add_argument("--rate", type=float, default=1000, help="readings a second, all together [1000]")
    parser.add_argument("--seconds", type=float, default=0, help="how long it runs; 0: until Ctrl-C [0]")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        asyncio.run(main(read_options()))
    except (HubError, HubEndedError) as error:
        sys.exit(f"demo: {error}")
