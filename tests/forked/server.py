"""A process that has imported what commands need, and becomes one of them when it is asked: see `tests.forked.program`.

    python -m tests.forked.server DESCRIPTOR

Each packet on the socket asks for one command: its module, arguments, environment and folder, with its three streams
and a socket of its own. The server forks; the child puts all in place that a new interpreter would find there, and then
leaves this program: it runs the module as `python -m` does, and ends as that ends, with the interpreter's own last
steps. The server sends the child's id on the command's socket and, when the child has ended, how. It keeps the id taken
until the other side has read that, as the kernel does for `wait`.

Invariants: it has one thread, since threads do not survive a fork; no command sees a descriptor of another one, or of
the server. It ends with the socket; commands that still run then go on, as they do when whoever started them ends.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import hub
import peers

__all__ = ["PACKET_BYTES"]

PACKET_BYTES = 1 << 17
"""Longest arguments with their environment; the kernel takes 200 KiB."""

_LEFT_OUT = ("peers.spark", "peers.bench", "peers.cli.spark", "peers.cli.bench", "peers.cli.__main__", "hub.twins")
"""What only few commands need, and what does something when it is imported."""


def _import_all() -> None:
    """Import whatever commands may need."""
    for package in (hub, peers):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.startswith(_LEFT_OUT):
                try:
                    importlib.import_module(module.name)
                except ImportError:  # an extra that is not installed; a command that needs it says so
                    continue


class _Child:
    """A command that runs, or has ended and is not forgotten yet."""

    def __init__(self, pid: int, link: socket.socket) -> None:
        self.pid = pid
        self.descriptor = os.pidfd_open(pid)
        self.link = link

    def tell(self) -> None:
        """Tell how it has ended; its id stays taken."""
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        with suppress(OSError):  # nobody wants to know
            self.link.send(str(code).encode())
        os.close(self.descriptor)

    def forget(self) -> None:
        """Free its id, and say so by closing its socket."""
        os.waitpid(self.pid, 0)
        self.link.close()


def _serve(requests: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Start commands until the socket is closed.

    Returns:
        In a child: what it is to become, and its streams. In the server: None, at its end.
    """
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not requests:
                    _go_on(selector, key)
                    continue
                packet, descriptors, _, _ = socket.recv_fds(requests, PACKET_BYTES, 4)
                if not packet:
                    return None
                pid = os.fork()
                if pid == 0:
                    return json.loads(packet), descriptors[:3]
                for descriptor in descriptors[:3]:
                    os.close(descriptor)
                child = _Child(pid, socket.socket(fileno=descriptors[3]))
                selector.register(child.descriptor, selectors.EVENT_READ, child)
                child.link.send(str(pid).encode())


def _go_on(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    """A command has ended, or how it has ended was heard."""
    child: _Child = key.data
    selector.unregister(key.fileobj)
    if key.fileobj is child.link:
        child.forget()
    else:
        child.tell()
        selector.register(child.link, selectors.EVENT_READ, child)


def _become(asked: dict[str, Any], streams: list[int]) -> None:
    """Put in place what a new interpreter would find: streams, environment, folder, path, arguments, signals."""
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    environment = {bytes.fromhex(name): bytes.fromhex(value) for name, value in asked["environment"]}
    for name in os.environb.keys() - environment.keys():
        del os.environb[name]
    os.environb.update(environment)
    os.chdir(bytes.fromhex(asked["folder"]))
    sys.path[0] = str(Path.cwd())
    sys.argv[1:] = [os.fsdecode(bytes.fromhex(argument)) for argument in asked["arguments"]]
    sys.orig_argv[1:] = ["-m", asked["module"], *sys.argv[1:]]
    sys.stdin = sys.__stdin__ = _stream(0, sys.stdin)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1, sys.stdout)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, sys.stderr)  # type: ignore[misc]


def _stream(number: int, like: TextIO) -> TextIO:
    """Open a standard stream as an interpreter does when it starts."""
    is_written = number > 0
    is_direct = like.write_through  # type: ignore[attr-defined]  # all three are, or none: as PYTHONUNBUFFERED says
    buffering = 0 if is_direct and is_written else -1
    raw: Any = open(number, "wb" if is_written else "rb", buffering, closefd=False)  # noqa: SIM115
    getattr(raw, "raw", raw).name = like.name
    text = io.TextIOWrapper(
        raw,
        encoding=like.encoding,
        errors=like.errors,
        newline="\n",
        line_buffering=not is_direct and (number == 2 or raw.isatty()),
        write_through=is_direct,
    )
    text.mode = "w" if is_written else "r"  # type: ignore[attr-defined]
    return text


if __name__ == "__main__":
    _import_all()
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as _requests:
        _asked = _serve(_requests)
        if _asked is not None:
            _requests.detach()
    if _asked is not None:
        _become(*_asked)
        runpy._run_module_as_main(_asked[0]["module"])  # type: ignore[attr-defined]  # what `python -m` calls, too
