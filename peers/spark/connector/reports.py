"""`Reports`: a streaming query reports its position to its hub, which shows its lag beside that of consumers.

```
StreamReader ─ tell ─▶ the newest position ─▶ a thread, every `EVERY_S` ─▶ $hub/consumers/commit
```

The query waits for no report, and none fails it: the first of several failures is a warning. The thread starts with the
first position, with a connection of its own. The last position may be lost where Spark ends the process of a query that
is stopped; where a query ends by itself, `flush` waits for it. A copy in a task has no thread, and reports nothing.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from hub.errors import HubError, RequestError
from peers.client.blocking import BlockingClient
from peers.spark.connector.connection import connected
from peers.spark.connector.options import Access

EVERY_S: Final = 1.0
"""Between two reports."""

STOP_S: Final = 2.0
"""How long the end of a query waits for the last report, at most."""

_SERVICE = "$hub/consumers/commit"

_log = logging.getLogger("peers.spark")


class Reports:
    """The reports of one query."""

    def __init__(self, access: Access, name: str, prefixes: tuple[str, ...], every_s: float = EVERY_S) -> None:
        self._access = access
        self._name = name
        self._prefixes = prefixes
        self._every_s = every_s
        self._changed = threading.Condition()
        # Beneath it: what is to be told; None for nothing.
        self._position: int | None = None
        # Whether something is being told.
        self._is_busy = False
        # Whether it is to be told without a pause.
        self._hurries = False
        self._is_over = False
        # It begins with the first position; the client is its own.
        self._thread: threading.Thread | None = None
        self._client: BlockingClient | None = None
        # Whether the last attempt failed, so that one trouble is one warning.
        self._has_failed = False

    def __reduce__(self) -> tuple[type[Reports], tuple[Access, str, tuple[str, ...], float]]:
        """Leave the thread behind, for a task."""
        return Reports, (self._access, self._name, self._prefixes, self._every_s)

    def tell(self, position: int) -> None:
        """Report that the query is done with everything before an offset; does not wait."""
        with self._changed:
            self._position = position
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="reports to the hub", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until everything is reported, for `STOP_S` at most."""
        with self._changed:
            self._hurries = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._position is None and not self._is_busy, STOP_S)
            self._hurries = False

    def stop(self) -> None:
        """Report the last position, waiting for `STOP_S` at most, and end."""
        with self._changed:
            self._is_over = self._hurries = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(STOP_S)

    # In the thread.

    def _run(self) -> None:
        while (position := self._next()) is not None:
            self._send(position)
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._hurries, self._every_s)
        self._close()

    def _next(self) -> int | None:
        """Wait for a position; None for the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._position is not None or self._is_over)
            position, self._position = self._position, None
            self._is_busy = position is not None
            return position

    def _send(self, position: int) -> None:
        value = {"name": self._name, "prefixes": self._prefixes, "position": position}
        if self._client is not None and self._client.ended:
            self._close()
        try:
            if self._client is None:
                self._client = connected(self._access)
            self._client.request(_SERVICE, value, timeout_s=self._access.timeout_s)
        except (HubError, TimeoutError, OSError) as error:
            if not isinstance(error, RequestError):  # who is only refused may ask again
                self._close()
            if not self._has_failed:
                _log.warning(
                    "the hub at %s is not told how far consumer %s is: %s", self._access.url, self._name, error
                )
            self._has_failed = True
        else:
            self._has_failed = False

    def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
