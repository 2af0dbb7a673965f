"""A ZeroMQ XSUB/XPUB proxy: libzmq's own loop (`zmq_proxy`), started by a few lines of Python that then only wait.

Without high-water marks: at one, XPUB would drop.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from brokers.broker import Ports, first_line

__all__ = ["Zeromq"]

_PROXY = """
import sys, zmq
context = zmq.Context(io_threads=1)
context.set(zmq.MAX_SOCKETS, 20000)
frontend, backend = context.socket(zmq.XSUB), context.socket(zmq.XPUB)
for socket in (frontend, backend):
    socket.set_hwm(0)
    socket.setsockopt(zmq.BACKLOG, 4096)
backend.setsockopt(zmq.XPUB_VERBOSE, 1)
frontend.bind(f"tcp://127.0.0.1:{sys.argv[1]}")
backend.bind(f"tcp://127.0.0.1:{sys.argv[2]}")
zmq.proxy(frontend, backend)
"""
_VERSION = "import zmq; print(f'libzmq {zmq.zmq_version()}, pyzmq {zmq.__version__}')"


class Zeromq:
    """The proxy."""

    name = "zeromq"
    package = "pypi:pyzmq"
    websocket = False

    def version(self) -> str:
        """Return libzmq's and pyzmq's."""
        return first_line(sys.executable, "-c", _VERSION) if find_spec("zmq") else ""

    def command(self, ports: Ports, directory: Path) -> list[str]:  # noqa: ARG002 -- it reads no file
        """Start it."""
        return [sys.executable, "-c", _PROXY, str(ports[0]), str(ports[1])]
