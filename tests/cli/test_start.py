"""What `hub pub` loads before it publishes: scripts call it again and again, so it loads nothing that it does not need.

Not a time is asserted, but names of modules: each of these costs 5 to 50 ms with what it brings.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.programs import PROJECT, RunningHub, environment

PROGRAM = """
import sys
from peers.cli import main
try:
    main()
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""

NOT_FOR_CLIENTS = (
    "hub.config",  # how settings are read
    "hub.core",
    "hub.handler",
    "hub.keys",  # all settings
    "hub.policy",
    "hub.settings",
    "peers.daemon",
    "peers.journal",
    "peers.node",
    "prometheus_client",
    "structlog",
    "uvloop",
)
NOT_FOR_EVERYBODY = (
    "cyclopts.completion",
    "cyclopts.help",
    "email",
    "hub.stores",  # only for `hub store`
    "peers.client.stores",
    "peers.stores",
    "peers.values",  # Zeek's types: only for --zeek-event, and stores
    "peers.client.websocket",  # only for ws:// and wss://
    "http",
    "websockets",
    "rich",  # tables, and progress on a terminal
)


def loaded(running_hub: RunningHub, *arguments: str) -> set[str]:
    """The modules that a command has loaded when it ends; it must succeed."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=PROJECT,
        env=environment(HUB_URL=running_hub.tcp),
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.split())


def within(modules: set[str], names: tuple[str, ...]) -> list[str]:
    """Those of the modules that are, or are part of, one of some."""
    return sorted(one for one in modules if one.startswith(tuple(f"{name}." for name in names)) or one in names)


@pytest.mark.parametrize("arguments", [("pub", "/start", '{"a": 1}'), ("pub", "/start", "words"), ("pub", "/start")])
def test_pub(running_hub: RunningHub, arguments: tuple[str, ...]) -> None:
    """One value, or the lines of standard input."""
    modules = loaded(running_hub, *arguments)
    assert "peers.client.client" in modules
    assert within(modules, NOT_FOR_CLIENTS + NOT_FOR_EVERYBODY) == []


@pytest.mark.parametrize("arguments", [("sub", "/start", "--timeout", "0.01"), ("names",), ("request", "/nobody", "1")])
def test_others_that_talk_to_a_hub(running_hub: RunningHub, arguments: tuple[str, ...]) -> None:
    """Nothing of the hub itself: a client is no hub."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=PROJECT,
        env=environment(HUB_URL=running_hub.tcp),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    modules = set(done.stderr.split())
    assert "peers.client.client" in modules
    assert within(modules, ("hub.core", "hub.handler", "peers.daemon", "peers.node", "prometheus_client")) == []
