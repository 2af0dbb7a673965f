"""A member of a consumer group, in a process of its own, which may be killed: it notes each message, then acknowledges.

python -m tests.faults.consuming URL NOTES
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from contextlib import suppress

from hub.errors import ResponderGoneError
from peers.client import ConnectionLostError, connect
from peers.transport.timing import Backoff

_AGAIN_S = 0.1
_PREFETCH = 500  # enough for a second of work, so that a kill finds much that is not acknowledged


async def consume(url: str, name: str, path: str) -> None:
    log = os.open(path, os.O_WRONLY | os.O_APPEND)
    async with (
        connect(url, backoff=Backoff(base_s=0.05, cap_s=0.5)) as client,
        client.consume(name, prefetch=_PREFETCH) as messages,
    ):
        while batch := await messages.batch():
            lines = [f"{message.value[0]} {message.value[1]} {message.deliveries}\n" for message in batch]
            os.write(log, "".join(lines).encode())
            await messages.ack(*batch)


async def consume_once_there_is_a_hub(url: str, name: str, path: str) -> None:
    while True:
        with suppress(ConnectionLostError, ResponderGoneError):  # a worker may be there before its core is reached
            await consume(url, name, path)
        await asyncio.sleep(_AGAIN_S)


if __name__ == "__main__":
    logging.disable()  # the client tells of each lost connection
    asyncio.run(consume_once_there_is_a_hub(*sys.argv[1:]))
