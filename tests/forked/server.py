"""A process that has imported the modules of others, and forks them on request: see `tests.forked.program`.

    python -m tests.forked.server LISTENER commands
    python -m tests.forked.server LISTENER workers

`commands` are those of `hub`, `workers` those that Spark starts Python for (`tests.forked.launcher`). A client connects
to the listener, a descriptor, and sends one packet (`tests.forked.request`) with three streams and other descriptors.
The child restores the state of a new interpreter, and runs the module as `python -m` does. The server sends the child's
id and, at its end, how it has ended; it keeps the id taken until the client has closed its direction, as the
kernel does for `wait`. It has one thread, since threads do not survive a fork; only processes of the same user are
served. It ends with its standard input; its children go on.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import io
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import hub
import peers
from tests.forked.request import DESCRIPTORS, PACKET_BYTES, REFUSED, unpack
from tests.forked.servers import PROJECT, bear_name

__all__: list[str] = []

# How variables begin that are read before the program is.
_OF_INTERPRETERS = (b"PYTHON", b"LC_", b"LANG", b"TZ", b"LD_", b"MALLOC_", b"WITHOUT")

# How those begin that only look so: its workers read them.
_OF_SPARK = (b"PYTHON_WORKER_", b"PYTHON_DAEMON_", b"PYTHON_UDF_")

# What only few commands need, and what does something when it is imported.
_LEFT_OUT = (
    *("peers.spark", "peers.bench", "peers.cli.spark", "peers.cli.bench", "peers.cli.__main__", "hub.twins"),
    "peers.journal.tier.",  # pyarrow starts threads
)


# What Spark starts Python with; more of it is in `pyspark.sql.worker`.
_OF_WORKERS = ("pyspark.worker", "pyspark.daemon", "pyspark.sql.streaming.python_streaming_source_runner")


def _import_commands() -> None:
    for name in _modules_of(hub, peers):
        if not name.startswith(_LEFT_OUT):
            with suppress(ImportError):  # an extra that is not installed; a command that needs it says so
                importlib.import_module(name)
    importlib.import_module("tests.forked.offspring")


def _import_workers() -> None:
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # else numpy starts threads as it is imported
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"  # the same of pyarrow's jemalloc
    worker, connector = (importlib.import_module(name) for name in ("pyspark.sql.worker", "peers.spark.connector"))
    for name in ("pandas", "pyarrow.parquet", *_OF_WORKERS, *_modules_of(worker, connector)):
        importlib.import_module(name)


def _modules_of(*packages: Any) -> Iterable[str]:
    for package in packages:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield module.name


_IMPORTS: dict[str, Callable[[], None]] = {"commands": _import_commands, "workers": _import_workers}


class _Child:
    def __init__(self, pid: int, link: socket.socket) -> None:
        self.pid = pid
        self.descriptor = os.pidfd_open(pid)
        self.link = link
        self.has_ended = False

    def tell(self) -> None:
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        with suppress(OSError):  # nobody wants to know
            self.link.send(str(code).encode())
        os.close(self.descriptor)
        self.has_ended = True

    def forget(self) -> None:
        os.waitpid(self.pid, 0)
        self.link.close()


class _Server:
    """What asks for processes, and what has become of them."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._own = _of_interpreters(os.environb)
        self._selector = selectors.DefaultSelector()

    def serve(self) -> dict[str, Any] | None:
        """Start processes until standard input is closed."""
        with self._selector as selector:
            selector.register(0, selectors.EVENT_READ)
            selector.register(self._listener, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj == 0:
                        return None
                    if key.fileobj is not self._listener:
                        self._go_on(key)
                    elif (asked := self._start(self._listener.accept()[0])) is not None:
                        return asked

    def _start(self, link: socket.socket) -> dict[str, Any] | None:
        packet, descriptors, _, _ = socket.recv_fds(link, PACKET_BYTES, DESCRIPTORS)
        asker, user = _who_asks(link)
        asked = unpack(packet) if packet and user == os.getuid() else None
        if asked is None:
            link.close()
        elif _of_interpreters(asked["environment"]) != self._own:
            link.send(REFUSED)
            link.close()
        else:
            pid = os.fork()
            if pid == 0:
                link.close()
                return asked | {"descriptors": descriptors, "asker": asker, "address": self._listener.getsockname()}
            self._watch(_Child(pid, link), bound=asked["bound"])
        for descriptor in descriptors:
            os.close(descriptor)
        return None

    def _watch(self, child: _Child, *, bound: bool) -> None:
        self._selector.register(child.descriptor, selectors.EVENT_READ, child)
        if bound:
            self._selector.register(child.link, selectors.EVENT_READ, child)
        with suppress(OSError):  # it has gone
            child.link.send(str(child.pid).encode())

    def _go_on(self, key: selectors.SelectorKey) -> None:
        child: _Child = key.data
        self._selector.unregister(key.fileobj)
        if key.fileobj is not child.link:
            child.tell()
            if child.link not in self._selector.get_map():
                self._selector.register(child.link, selectors.EVENT_READ, child)
        elif child.has_ended:
            child.forget()
        else:
            signal.pidfd_send_signal(child.descriptor, signal.SIGKILL)


def _who_asks(link: socket.socket) -> tuple[int, int]:
    process, user, _ = struct.unpack("iII", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return process, user


def _of_interpreters(environment: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    found = {
        name: value
        for name, value in environment.items()
        if name.startswith(_OF_INTERPRETERS) and not name.startswith(_OF_SPARK)
    }
    # An interpreter leaves out what stands there twice, and Spark adds its own so. Where the project is not named here,
    # it is added for those who want it (`_become`).
    places = dict.fromkeys(found.pop(b"PYTHONPATH", b"").split(b":"))
    found[b"PYTHONPATH"] = b":".join([place for place in places if place not in {b"", os.fsencode(PROJECT)}])
    return found


def _become(asked: dict[str, Any]) -> None:
    _place(dict(zip((0, 1, 2, *asked["passed"]), asked["descriptors"], strict=True)))
    if asked["leads"]:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for ignored in asked["ignored"]:
        signal.signal(ignored, signal.SIG_IGN)
    environment = asked["environment"]
    for name in os.environb.keys() - environment.keys():
        del os.environb[name]
    os.environb.update(environment)
    os.chdir(asked["folder"])
    sys.path[0] = str(Path.cwd())
    if os.fsencode(PROJECT) in environment.get(b"PYTHONPATH", b"").split(b":"):
        # Once, as an interpreter has it: not again where the project is installed.
        sys.path[1:] = [str(PROJECT), *(place for place in sys.path[1:] if place != str(PROJECT))]
    bear_name(asked["asker"])
    module, *arguments = map(os.fsdecode, asked["arguments"])
    sys.argv[1:] = arguments
    sys.orig_argv[1:] = ["-m", module, *arguments]
    sys.stdin = sys.__stdin__ = _stream(0, sys.stdin)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1, sys.stdout)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, sys.stderr)  # type: ignore[misc]
    if module == "peers.cli":
        importlib.import_module("tests.forked.offspring").fork_offspring(asked["address"])
    sys.modules.pop(module, None)  # it is to be the main module


def _place(wanted: Mapping[int, int]) -> None:
    above = max(wanted) + 1
    aside = {number: fcntl.fcntl(descriptor, fcntl.F_DUPFD, above) for number, descriptor in wanted.items()}
    for number, descriptor in aside.items():
        os.dup2(descriptor, number)
    for number in set(range(above)) - wanted.keys():
        with suppress(OSError):  # there is none
            os.close(number)
    os.closerange(above, os.sysconf("SC_OPEN_MAX"))


def _stream(number: int, like: TextIO) -> TextIO:
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
    _IMPORTS[sys.argv[2]]()
    assert len(list(Path("/proc/self/task").iterdir())) == 1
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as _listener:
        _asked = _Server(_listener).serve()
    if _asked is not None:
        _become(_asked)
        runpy._run_module_as_main(os.fsdecode(_asked["arguments"][0]))  # type: ignore[attr-defined]  # what `python -m` calls, too
