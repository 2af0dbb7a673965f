"""Publish a reading of this machine's load, once a second.

    python examples/publisher.py [URL] [COUNT]

Watch it with `hub sub /example/` or with examples/subscriber.py. Stop the hub and start it again: it goes on by itself.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from datetime import UTC, datetime

from peers.client import HubError, connect


async def main(url: str, count: int) -> None:
    """Publish `count` readings; 0 for no end."""
    topic = f"/example/load/{socket.gethostname()}"
    async with connect(url, name="load publisher", on_disconnect=lambda reason: print("lost:", reason)) as client:
        sent = 0
        while True:
            await client.publish(topic, {"at": datetime.now(UTC), "load": os.getloadavg()})
            sent += 1
            if sent == count:
                break
            await asyncio.sleep(1.0)
    print(f"{sent} readings published under {topic}")


if __name__ == "__main__":
    try:
        asyncio.run(
            main(
                sys.argv[1] if len(sys.argv) > 1 else "tcp://127.0.0.1:7400",
                int(sys.argv[2]) if len(sys.argv) > 2 else 0,
            )
        )
    except HubError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
