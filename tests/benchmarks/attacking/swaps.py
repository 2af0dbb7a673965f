"""A policy that is swapped while very many hold what it grants, and no longer grants."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from attacking.crowds import Until, crowd
from peers.wire.control import encode_subscription
from peers.wire.kinds import Kind

__all__ = ["flags", "swapped_policy"]

_POLICY = "policy.toml"
_CLIENTS = 1_000
_PREFIXES = 100
_SWAP_S = 3.0
"""How long a policy is left in force."""


def _write(directory: str, *more: str) -> None:
    granted = ", ".join(f'"{path}"' for path in ("/quiet", *more))
    text = f'[roles.crowd]\npublish = ["*"]\nsubscribe = [{granted}]\n[limits.roles.crowd]\nconnections = 5000\n'
    Path(directory, _POLICY).write_text(text)


def flags(directory: Path) -> tuple[str, ...]:
    """Write a policy; return the flags of a hub that lets everybody in by it."""
    _write(str(directory), "/crowd")
    return ("--access-policy", str(directory / _POLICY), "--anonymous", "crowd")


def swapped_policy(url: str, until: Until) -> None:
    """1,000 clients with 100 prefixes each lose all of them at a reload, and subscribe again behind the next one."""
    tcp, directory, pid = url.split(" ")
    lines = crowd(tcp, _CLIENTS, until)
    while not until():
        _write(directory, "/crowd")
        os.kill(int(pid), signal.SIGHUP)
        time.sleep(0.3)
        for number, line in enumerate(lines):
            line.send(encode_subscription(Kind.SUBSCRIBE, [f"/crowd/{number}/{n}" for n in range(_PREFIXES)], 1))
        end_s = time.monotonic() + _SWAP_S
        while time.monotonic() < end_s and not until():
            for line in lines:
                line.wait(0)
            time.sleep(0.05)
        _write(directory)
        os.kill(int(pid), signal.SIGHUP)
        time.sleep(_SWAP_S)
        for line in lines:
            line.wait(0)
