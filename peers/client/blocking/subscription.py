"""`BlockingSubscription`: a function that gets messages in the loop thread, as a thread sees it.

Owner: whoever has it; any thread may call. What it shows and does is that of a `CallbackSubscription`.
"""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Self

from hub.errors import ClosedError
from peers.client.blocking.call import Call
from peers.client.callback import CallbackSubscription

__all__ = ["BlockingSubscription"]


class BlockingSubscription:
    """Messages given to a function, in the loop thread. Made by `BlockingClient.subscribe_callback`.

    Args:
        call: Runs coroutines in the loop thread of the client.
        subscription: In the loop thread, open.
    """

    def __init__(self, call: Call, subscription: CallbackSubscription) -> None:
        self._call = call
        self._subscription = subscription

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes that it subscribes to."""
        return self._subscription.prefixes

    @property
    def lost_messages(self) -> int:
        """How many messages of this client the hub has lost since it was opened."""
        return self._subscription.lost_messages

    @property
    def breaks(self) -> int:
        """How often the connection was lost, and made anew, since it was opened."""
        return self._subscription.breaks

    def close(self, *, timeout_s: float | None = None) -> None:
        """Unsubscribe; the function is not called any more."""
        with suppress(ClosedError):  # it has ended with its client
            self._call(self._subscription.close(), timeout_s)
