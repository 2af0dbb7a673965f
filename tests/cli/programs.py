"""The real programs: a hub, and the commands that talk to it.

A command that runs to its end does so in the process of the tests (`hub`); what is stopped, piped or on a terminal is
forked from a process that has imported what it needs (`tests.forked.program`). Where a test is about the interpreter,
imports, or the way a process ends, it starts `HUB` itself.
"""

from __future__ import annotations

import asyncio
import fcntl
import gc
import io
import logging
import os
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from peers.cli import main
from peers.client import connect
from tests.forked import servers
from tests.forked.program import HUB, MODULE, AwaitedProgram, Program, run
from tests.forked.servers import LAUNCHER, PROJECT

__all__ = ["HUB", "PROJECT"]
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
        Program("run", *listen, *flags, env=environment(), stdout=subprocess.PIPE, stderr=log, text=True) as process,
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
    *arguments: str, url: str = "", stdin: bytes = b"", folder: Path = PROJECT, **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """Run one command to its end: in this process, or in one of its own where a loop runs or another thread asks."""
    if url:
        variables["HUB_URL"] = url
    env = environment(**variables)
    if threading.current_thread() is not threading.main_thread() or asyncio._get_running_loop() is not None:
        return run(*arguments, stdin=stdin, timeout_s=PATIENCE_S, env=env, cwd=folder)
    log = logging.getLogger("peers.client")
    before = log.propagate, list(log.handlers)
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(sys, "argv", ["hub", *arguments])
        stack.callback(gc.enable)
        patch.setattr(gc, "freeze", lambda: None)  # what the tests have made is garbage in the end
        patch.chdir(folder)
        for name in list(os.environ):
            patch.delenv(name)
        for name, value in env.items():
            patch.setenv(name, value)
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        files[0].write(stdin)
        files[0].seek(0)
        for name, file in zip(("stdin", "stdout", "stderr"), files, strict=True):
            errors = "backslashreplace" if name == "stderr" else "strict"
            stream = io.TextIOWrapper(file, "utf-8", errors=errors, write_through=name == "stderr")
            patch.setattr(sys, name, stack.enter_context(stream))
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        sys.stdout.flush()
        sys.stderr.flush()
        log.propagate, log.handlers[:] = before
        said = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0) for file in files[1:]]
    return subprocess.CompletedProcess(arguments, code, *said)


def run_in(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    done = hub(*arguments, folder=folder, **variables)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def run_shell(block: str, folder: Path, **variables: str) -> str:
    """Run a block of shell of a document in a folder; return what it writes."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=folder,
        env=environment_of_shell(folder, **variables),
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


def interpreted(*arguments: str, url: str = "", **pipes: Any) -> subprocess.Popen[bytes]:
    """Start one command by an interpreter of its own."""
    return subprocess.Popen(
        [*HUB, *arguments], cwd=PROJECT, env=environment(HUB_URL=url), stderr=subprocess.PIPE, **pipes
    )


def start(*arguments: str, url: str, stdout: int | BinaryIO = subprocess.PIPE) -> subprocess.Popen[bytes]:
    return Program(
        *arguments, env=environment(HUB_URL=url), stdin=subprocess.PIPE, stdout=stdout, stderr=subprocess.PIPE
    )


async def started(*arguments: str) -> AwaitedProgram:
    """Start one command beside a loop."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return await AwaitedProgram.start(*arguments, **pipes, limit=1 << 24, env=environment())


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
