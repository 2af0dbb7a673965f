"""Print messages as they come, and say where some are missing.

python examples/subscriber.py [URL] [PREFIX] [COUNT]
"""

from __future__ import annotations

import asyncio
import sys

from peers.client import HubError, connect


async def main(url: str, prefix: str, count: int) -> None:
    """Print `count` messages; 0 for no end."""
    async with connect(url, name="example subscriber") as client, client.subscribe(prefix) as messages:
        print(f"subscribed to {prefix!r}", flush=True)
        lost = breaks = seen = 0
        async for message in messages:
            if messages.lost_messages != lost:
                print(f"--- {messages.lost_messages - lost} messages lost: this reader was too slow")
                lost = messages.lost_messages
            if messages.breaks != breaks:
                print("--- the connection was lost here")
                breaks = messages.breaks
            print(message.topic, message.value, flush=True)
            seen += 1
            if seen == count:
                break


if __name__ == "__main__":
    arguments = dict(enumerate(sys.argv))
    try:
        asyncio.run(
            main(
                arguments.get(1, "tcp://127.0.0.1:7400"),
                arguments.get(2, "/example/"),
                int(arguments.get(3, 0)),
            )
        )
    except HubError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
