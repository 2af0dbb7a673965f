"""The real programs, each a process of its own: a hub, and the commands that talk to it.

All are forked from a process that has imported what they need (`tests.forked.program`). Where a test is about the
interpreter, imports, or the way a process ends, it starts `HUB` itself.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import shlex
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from peers.client import connect
from tests.forked import servers
from tests.forked.program import HUB, MODULE, Program, run
from tests.forked.servers import LAUNCHER, PROJECT

__all__ = [
    "HUB",
    "PATIENCE_S",
    "PROJECT",
    "RunningHub",
    "environment",
    "environment_of_shell",
    "hub",
    "on_terminal",
    "plain",
    "run_hub",
    "screen",
    "start",
    "wait_subscribed",
]

PATIENCE_S = 60
"""How long a command may take; only a test that fails waits so long."""


@dataclass(frozen=True)
class RunningHub:
    tcp: str
    unix: str
    ws: str
    process: subprocess.Popen[str]


def environment(**variables: str) -> dict[str, str]:
    """The environment of a command: this one without any `HUB_*` but those given."""
    return {name: value for name, value in os.environ.items() if not name.startswith("HUB_")} | variables


def environment_of_shell(folder: Path, **variables: str) -> dict[str, str]:
    """The environment of a shell in which `hub` is a command, forked as others are; that is put into a folder."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "hub").write_text(f'#!/bin/sh\nexec {shlex.quote(LAUNCHER)} -m {MODULE} "$@"\n')
    (programs / "hub").chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return environment(PATH=path, **servers.of_commands().variables, **variables)


@contextmanager
def run_hub(folder: Path, *flags: str) -> Iterator[RunningHub]:
    """Run a hub for as long as the block lasts."""
    unix = f"unix://{folder}/hub.sock"
    listen = [part for url in ("tcp://127.0.0.1:0", unix, "ws://127.0.0.1:0") for part in ("--listen", url)]
    with (
        (folder / "hub.log").open("ab") as log,
        Program(
            "run",
            *listen,
            *flags,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            said = ""
            while "page" not in said:
                line = process.stdout.readline()
                assert line, f"the hub did not start: {said}{(folder / 'hub.log').read_text()}"
                said += line
            found = re.findall(r"listens on (\S+)", said)
            yield RunningHub(found[0], found[1], found[2], process)
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def hub(
    *arguments: str, url: str = "", stdin: bytes | None = b"", **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """Run one command to its end."""
    if url:
        variables["HUB_URL"] = url
    return run(*arguments, stdin=stdin, timeout_s=PATIENCE_S, env=environment(**variables))


def start(*arguments: str, url: str, stdout: int | BinaryIO = subprocess.PIPE) -> subprocess.Popen[bytes]:
    return Program(
        *arguments,
        env=environment(HUB_URL=url),
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=subprocess.PIPE,
    )


def on_terminal(*arguments: str, url: str, columns: int = 80) -> tuple[subprocess.Popen[bytes], int]:
    """Start one command on a terminal of its own."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    variables = environment(HUB_URL=url, TERM="xterm-256color")
    for set_by_others in ("NO_COLOR", "COLUMNS", "LINES"):
        variables.pop(set_by_others, None)
    process = Program(*arguments, env=variables, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    return process, ours


def screen(terminal: int) -> str:
    shown = b""
    try:
        while chunk := os.read(terminal, 65536):
            shown += chunk
    except OSError:  # how Linux tells the end
        pass
    os.close(terminal)
    return shown.decode()


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\r\n", "\n")


def wait_subscribed(url: str, *names: str) -> None:
    """Wait until clients of these names are connected and subscribed, as the hub sees it."""

    async def watch() -> None:
        async with connect(url) as client, client.subscribe("$hub/statistics") as messages:
            async for _, value in messages:
                if set(names) <= {each["name"] for each in value["some"] if each["prefixes"]}:
                    return

    asyncio.run(asyncio.wait_for(watch(), PATIENCE_S))
