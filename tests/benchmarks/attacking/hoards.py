"""Far sides that make the hub keep things for them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from attacking.line import Line
from hub.names.claim import Announced
from hub.tags.rule import check_rule
from peers.wire.control import encode_subscription
from peers.wire.kinds import Kind
from peers.wire.names import encode_names
from peers.wire.rules import encode_rules

__all__ = ["many_prefixes", "peer_that_leaves", "peer_with_prefixes", "stalled_readers", "stalled_readers_that_leave"]

_PER_FRAME = 10_000
_LINK_PREFIXES = 100_000
_LINK_NAMES = 50_000
_LINK_RULES = 100_000
_STALLED = 12
_STALLED_THAT_LEAVE = 100
_BODY = b"\xc5\x40\x00" + bytes(0x4000)

Until = Callable[[], bool]


def peer_with_prefixes(url: str, until: Until) -> None:
    """A stranger calls itself a hub and announces prefixes, 10,000 in a frame, for as long as it is let."""
    line = Line(url, "hub")
    word = os.urandom(4).hex()
    start = 0
    while not until():
        prefixes = [f"/{word}/{start + n:08}/" for n in range(_PER_FRAME)]
        start += _PER_FRAME
        if not line.send(encode_subscription(Kind.SUBSCRIBE, prefixes)):
            line = Line(url, "hub")
        time.sleep(0.05)


def peer_that_leaves(url: str, until: Until) -> None:
    """A hub announces 50,000 names, 100,000 rules and 100,000 services, and leaves; again and again."""
    word = os.urandom(4).hex()
    names = [
        encode_names([Announced(f"org.n{word}.x{n + m}", (), 1, 1) for m in range(500)], [])
        for n in range(0, _LINK_NAMES, 500)
    ]
    rules = [
        encode_rules(Kind.RULE, [check_rule((f"l{n + m}", word), "", "") for m in range(1_000)])
        for n in range(0, _LINK_RULES, 1_000)
    ]
    services = [
        encode_subscription(Kind.SERVE, [f"/{word}/{n + m}" for m in range(1_000)])
        for n in range(0, _LINK_PREFIXES, 1_000)
    ]
    while not until():
        line = Line(url, "hub")
        for frame in (*names, *rules, *services):
            if until() or not line.send(frame):
                break
        line.wait(0.2)
        line.close()


def many_prefixes(url: str, until: Until) -> None:
    """Clients with 1,000 prefixes of 1,000 bytes each come, more and more of them, and then leave all at once."""
    lines: list[Line] = []
    while not until():
        word = os.urandom(4).hex()
        try:
            line = Line(url)
        except OSError:
            time.sleep(0.1)
            continue
        line.send(encode_subscription(Kind.SUBSCRIBE, [f"/{word}/{n:0985}/" for n in range(1_000)]))
        lines.append(line)
        if len(lines) == 200:
            for each in lines:
                each.close()
            lines = []
        time.sleep(0.01)


def stalled_readers(url: str, until: Until) -> None:
    """Twelve subscribers never read; a publisher feeds each of them prefixes of its own with 16 KiB messages."""
    readers = []
    for n in range(_STALLED):
        reader = Line(url)
        reader.subscribe([f"/stalled/{n}/"])
        readers.append(reader)
    time.sleep(0.2)
    publisher = Line(url)
    while not until():
        for n in range(_STALLED):
            if not publisher.send(publisher.messages(f"/stalled/{n}/x", _BODY, 8)):
                publisher = Line(url)
        time.sleep(0.002)


def stalled_readers_that_leave(url: str, until: Until) -> None:
    """A hundred subscribers do not read until 80 MiB wait for each, as far as the hub lets them, and leave together."""
    publisher = Line(url)
    data = publisher.messages("/leaving/x", b"\xc5\x10\x00" + bytes(4096), 500)
    while not until():
        readers = [Line(url) for _ in range(_STALLED_THAT_LEAVE)]
        for reader in readers:
            reader.subscribe(["/leaving/"])
        time.sleep(0.5)
        for _ in range(40):
            if until() or not publisher.send(data):
                break
            time.sleep(0.01)
        for reader in readers:
            reader.close()
        time.sleep(0.5)
