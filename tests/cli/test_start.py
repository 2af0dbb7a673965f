"""What commands load: scripts call `hub pub` again and again, so it loads nothing that it does not need.

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

# prefixes of modules; hub.settings.keys has all settings
NOT_FOR_CLIENTS = """
hub.core hub.handlers.handler hub.settings.keys hub.policy hub.settings peers.daemon peers.journal peers.server
prometheus_client structlog uvloop
"""
# Of these, each is for few commands: tokens that are asked for, journals, stores, Zeek's types, ws://, tables.
NOT_FOR_EVERYBODY = """
cyclopts.completion cyclopts.help email getpass hub.journal.block hub.stores json peers.client.consumer_stream
peers.client.journal peers.client.store peers.client.writer peers.stores peers.values peers.client.websocket http
websockets rich secrets
"""


def loaded(running_hub: RunningHub, *arguments: str) -> set[str]:
    """The modules that a command has loaded when it ends, whatever its exit code."""
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
    assert "peers.cli.commands" in modules
    return modules


def within(modules: set[str], *lists: str) -> list[str]:
    names = " ".join(lists).split()
    return sorted(one for one in modules if one.startswith(tuple(f"{name}." for name in names)) or one in names)


@pytest.mark.parametrize(
    "arguments",
    [
        ("pub", "/start", "words"),
        ("pub", "/start"),
        ("sub", "/start", "--timeout", "0.01"),
        ("request", "$hub/names", "null"),
    ],
)
def test_what_talks_to_a_hub(running_hub: RunningHub, arguments: tuple[str, ...]) -> None:
    modules = loaded(running_hub, *arguments)
    assert "peers.client.client" in modules
    assert within(modules, NOT_FOR_CLIENTS, NOT_FOR_EVERYBODY) == []


def test_help_of_a_client(running_hub: RunningHub) -> None:
    modules = loaded(running_hub, "top", "--help")
    assert "cyclopts.help" in modules
    assert within(modules, NOT_FOR_CLIENTS) == []


@pytest.mark.parametrize("arguments", [("__complete", "bash", "pub", "--context", ""), ("--version",), ("--help",)])
def test_what_talks_to_nobody(running_hub: RunningHub, arguments: tuple[str, ...]) -> None:
    modules = loaded(running_hub, *arguments)
    assert within(modules, "asyncio peers.client peers.cli.run", NOT_FOR_CLIENTS) == []
