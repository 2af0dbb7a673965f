"""Very many connections at once, most of which do nothing."""

from __future__ import annotations

import resource
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress

from attacking.line import Line

__all__ = ["clients_that_leave", "idle_clients_and_metrics", "silent_strangers"]

_SILENT = 10_500
_IDLE = 9_000
_LEAVING = 4_000

Until = Callable[[], bool]


def _raise_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def silent_strangers(url: str, until: Until) -> None:
    """10,500 connections that say nothing, replaced as soon as the hub ends them."""
    _raise_limit()
    lines: list[Line] = []
    while not until():
        if len(lines) < _SILENT:
            with suppress(OSError):
                lines.append(Line(url, ""))
            continue
        alive = [line for line in lines if line.drain()]
        if len(alive) == len(lines):
            time.sleep(0.1)
        lines = alive


def idle_clients_and_metrics(url: str, until: Until) -> None:
    """9,000 idle clients of several addresses, and somebody who looks at the metrics twice a second."""
    _raise_limit()
    tcp, _, http = url.partition(" ")
    lines = _crowd(tcp, _IDLE, until)
    while not until():
        with suppress(OSError):
            urllib.request.urlopen(http.replace("ws://", "http://") + "/metrics", timeout=5).read()  # noqa: S310 -- loopback
        time.sleep(0.5)
    for line in lines:
        line.close()


def clients_that_leave(url: str, until: Until) -> None:
    """4,000 clients with ten prefixes each come, and leave within a moment."""
    _raise_limit()
    while not until():
        lines = _crowd(url, _LEAVING, until)
        for number, line in enumerate(lines):
            line.subscribe([f"/leaving/{number}/{n}" for n in range(10)])
        for line in lines:
            line.wait(0)
            line.close()
        time.sleep(0.5)


def _crowd(url: str, most: int, until: Until) -> list[Line]:
    """Connect so many clients, from 16 addresses of loopback, so that no limit for an address is met."""
    lines: list[Line] = []
    while len(lines) < most and not until():
        try:
            lines.append(Line(url, source=f"127.0.1.{len(lines) % 16 + 1}"))
        except OSError:
            time.sleep(0.05)
    return lines
