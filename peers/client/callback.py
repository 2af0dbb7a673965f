"""`CallbackSubscription`: a subscription whose messages are each given to a function.

The function is called within the turn that read the messages, so nothing is held: it must be quick. Owner: one client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from hub.batch import Batch, Message
from peers.client.interest import Claim
from peers.client.stream import Decode
from peers.client.subscriptions import Subscriptions

__all__ = ["CallbackSubscription"]


class CallbackSubscription:
    """Messages under some prefixes, each given to a function.

    Made by `Client.subscribe_callback`. What the function raises is reported to the event loop's exception handler,
    and the next message is given to it.
    """

    __slots__ = ("_claims", "_decode", "_function", "_subscriptions", "breaks", "lost_messages", "prefixes")

    def __init__(
        self,
        subscriptions: Subscriptions,
        prefixes: tuple[str, ...],
        decode: Decode,
        function: Callable[[Message], object],
    ) -> None:
        self.prefixes = prefixes
        # How many messages of this client the hub has lost since it was opened.
        self.lost_messages = 0
        # How often the connection was lost since it was opened.
        self.breaks = 0
        self._subscriptions = subscriptions
        self._decode = decode
        self._function = function
        # The claims on what it subscribes to; empty before `open`.
        self._claims: list[Claim] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close_nowait()

    async def open(self) -> None:
        """Subscribe; raises as `MessageStream.open`."""
        self._claims = await self._subscriptions.open(self, self.prefixes)

    def close_nowait(self) -> None:
        """Unsubscribe; do not wait for the hub. The function is not called any more."""
        self._subscriptions.release(self, self._claims)

    async def close(self) -> None:
        """Unsubscribe, and wait until the hub has confirmed."""
        answer = self._subscriptions.release(self, self._claims)
        if answer is not None:
            await asyncio.wait([answer])

    # As a sink.

    def put(self, batch: Batch) -> None:
        """Call the function for each message."""
        function = self._function
        for message in self._decode(batch):
            try:
                function(message)
            except Exception as error:  # noqa: BLE001 -- of the caller's function: reported where asyncio reports such
                asyncio.get_running_loop().call_exception_handler(
                    {"message": f"a subscriber's function failed on {message.topic}", "exception": error}
                )

    def put_gap(self, lost_messages: int) -> None:
        """Add to `lost_messages`: they were lost here."""
        self.lost_messages += lost_messages

    def put_break(self) -> None:
        """Add to `breaks`: the connection was lost here."""
        self.breaks += 1

    def finish(self, error: Exception | None) -> None:
        """Do nothing: the client itself tells that nothing more comes."""
