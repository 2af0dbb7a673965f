"""`BlockingServiceName`: a name that a client has claimed, as a thread sees it.

Owner: whoever has it; any thread may call. What it shows and does is that of a `ServiceName`.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from peers.client.blocking.call import Call
from peers.client.service_name import ServiceName

__all__ = ["BlockingServiceName"]


class BlockingServiceName:
    """A name that this client has claimed, for `with client.claim("org.example.Player")`.

    Args:
        call: Runs coroutines in the loop thread of the client.
        claimed: In the loop thread.
    """

    def __init__(self, call: Call, claimed: ServiceName) -> None:
        self._call = call
        self._claimed = claimed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    @property
    def name(self) -> str:
        """The name that is claimed."""
        return self._claimed.name

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that are announced with the name."""
        return self._claimed.labels

    @property
    def queue(self) -> bool:
        """Whether the claim waits while somebody else owns the name."""
        return self._claimed.queue

    @property
    def owned(self) -> bool:
        """Whether this client owns it now, as far as it was told."""
        return self._claimed.owned

    @property
    def reason(self) -> str:
        """Why the name is not owned, or not any more; for people."""
        return self._claimed.reason

    def wait_owned(self, *, timeout_s: float | None = None) -> None:
        """Wait until this client owns it; raises as `ServiceName.wait_owned`, and `TimeoutError`."""
        self._call(self._claimed.wait_owned(), timeout_s)

    def wait_lost(self, *, timeout_s: float | None = None) -> str:
        """Wait until this client does not own it; return why.

        Raises:
            TimeoutError: It owns it still.
            ClosedError: The client is closed.
        """
        return self._call(self._claimed.wait_lost(), timeout_s)

    def relabel(self, labels: Iterable[str], *, timeout_s: float | None = None) -> None:
        """Announce the name with other labels; raises as `ServiceName.relabel`, and `TimeoutError`."""
        self._call(self._claimed.relabel(labels), timeout_s)

    def release(self, *, timeout_s: float | None = None) -> None:
        """Give the name up, or wait for it no longer. May be called twice, and when it is lost."""
        self._call(self._claimed.release(), timeout_s)
