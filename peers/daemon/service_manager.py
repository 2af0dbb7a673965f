"""`ServiceManager`: reports the state of the process to systemd, as `sd_notify` does.

Each report is a datagram to the socket of the environment, whose variables are removed, so that child processes do not
report for this one. Reports that the socket does not take are sent again shortly, in order. The watchdog is a timer of
the loop, and so stops with it. A manager that is gone is logged once.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import deque
from collections.abc import Callable, MutableMapping
from typing import Final

import structlog

_AGAIN_S: Final = 0.05  # When a full socket is tried again
_UNSAID_LIMIT: Final = 16  # Most waiting messages: the oldest go first, as the newest has the state


class ServiceManager:
    """The supervisor of this process, at an address as of sd_notify(3)."""

    def __init__(self, address: str = "", watchdog_s: float = 0.0) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._every_s = watchdog_s / 2
        self._socket: socket.socket | None = None  # Not connected, as the receiver may be replaced
        self._unsaid: deque[bytes] = deque(maxlen=_UNSAID_LIMIT)  # Not taken by the socket yet
        self._beating: asyncio.TimerHandle | None = None
        self._trying: asyncio.TimerHandle | None = None
        self._is_well: Callable[[], bool] = lambda: True
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")

    @classmethod
    def taken_from(cls, environment: MutableMapping[str, str]) -> ServiceManager:
        address = environment.pop("NOTIFY_SOCKET", "")
        span_us, pid = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
        is_meant = pid in {"", str(os.getpid())}
        return cls(address, int(span_us) / 1e6 if is_meant and span_us.isdecimal() else 0.0)

    def begin(self, is_well: Callable[[], bool] = lambda: True) -> None:
        """Feed the watchdog from now on, while the hub is well."""
        self._is_well = is_well
        if self._address.startswith(("/", "\0")) and self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
            self._beat()

    def ready(self, status: str | None = None) -> None:
        """The hub is up, or a reload is over, also one that failed; `systemctl status` shows `status`, one line."""
        self._say(
            b"READY=1" if status is None else b"READY=1\nSTATUS=%b" % " ".join(status.split()).encode(errors="replace")
        )

    def reloading(self) -> None:
        self._say(b"RELOADING=1\nMONOTONIC_USEC=%d" % (time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000))

    def stopping(self) -> None:
        self._say(b"STOPPING=1")

    def end(self) -> None:
        for timer in (self._beating, self._trying):
            if timer is not None:
                timer.cancel()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _beat(self) -> None:
        if self._every_s > 0:
            self._beating = asyncio.get_running_loop().call_later(self._every_s, self._beat)
            if self._is_well():
                self._say(b"WATCHDOG=1")

    def _say(self, text: bytes) -> None:
        if self._socket is not None:
            self._unsaid.append(text)
            if self._trying is None:
                self._try()

    def _try(self) -> None:
        self._trying = None
        while self._unsaid and self._socket is not None:
            try:
                self._socket.sendto(self._unsaid[0], self._address)
            except BlockingIOError:
                self._trying = asyncio.get_running_loop().call_later(_AGAIN_S, self._try)
                return
            except OSError as error:
                self._log.warning("the service manager cannot be notified", reason=error.strerror)
                self.end()
                return
            self._unsaid.popleft()
