"""Ask and answer without asyncio: two threads that share one client.

    python examples/blocking.py [URL]

One thread squares the numbers that it hears, the main thread publishes numbers and waits for their squares.
"""

from __future__ import annotations

import sys
import threading

from peers.client import HubError
from peers.client.blocking import BlockingClient, BlockingStream, connect


def square(client: BlockingClient, numbers: BlockingStream) -> None:
    """Publish the square of every number that comes, until the stream is closed."""
    for message in numbers:
        client.publish("/example/square", [message.value, message.value**2])


def main(url: str) -> None:
    """Print ten squares."""
    with (
        connect(url, name="example squares") as client,
        client.subscribe("/example/number") as numbers,
        client.subscribe("/example/square") as squares,
    ):
        threading.Thread(target=square, args=(client, numbers)).start()
        for number in range(10):
            client.publish("/example/number", number)
            message = squares.receive(timeout_s=5.0)
            print(f"{message.value[0]} squared is {message.value[1]}")


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "tcp://127.0.0.1:7400")
    except (HubError, TimeoutError) as error:
        sys.exit(str(error))
