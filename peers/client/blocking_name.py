"""`BlockingServiceName`: a claimed service name, for threads.

Owner: whoever claimed it; any thread may call. Not here: claims (`peers.client.names`), the loop thread
(`peers.client.blocking`).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, Self

from peers.client.names import ServiceName

__all__ = ["BlockingServiceName"]


class BlockingServiceName:
    """A name that this client has claimed, for `with client.claim("org.example.Player")`.

    Args:
        call: Runs something in the loop thread, for so many seconds at most.
        claimed: What is in that thread.
    """

    def __init__(self, call: Callable[[Coroutine[Any, Any, Any], float | None], Any], claimed: ServiceName) -> None:
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
        """The name."""
        return self._claimed.name

    @property
    def owned(self) -> bool:
        """Whether this client owns it now, as far as it was told."""
        return self._claimed.owned

    @property
    def reason(self) -> str:
        """Why it is not owned, or not any more; for people."""
        return self._claimed.reason

    def wait_owned(self, timeout_s: float | None = None) -> None:
        """Wait until this client owns it; raises as `ServiceName.wait_owned`, and `TimeoutError`."""
        self._call(self._claimed.wait_owned(), timeout_s)

    def wait_lost(self, timeout_s: float | None = None) -> str:
        """Wait until this client does not own it; return why.

        Raises:
            TimeoutError: It owns it still.
            ClosedError: The client is closed.
        """
        reason: str = self._call(self._claimed.wait_lost(), timeout_s)
        return reason

    def relabel(self, labels: Iterable[str], timeout_s: float | None = None) -> None:
        """Announce the name with other labels; raises as `ServiceName.relabel`, and `TimeoutError`."""
        self._call(self._claimed.relabel(labels), timeout_s)

    def release(self, timeout_s: float | None = None) -> None:
        """Give it up, or wait for it no longer. May be called twice, and when it is lost."""
        self._call(self._claimed.release(), timeout_s)
