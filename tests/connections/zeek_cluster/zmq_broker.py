"""`ZmqBroker`: Zeek's central broker, which is libzmq's proxy with the options that Zeek sets."""

from __future__ import annotations

import threading
from collections.abc import Callable

import zmq

from peers.transport.endpoints import Endpoint, Scheme


class ZmqBroker:
    """One broker, in a thread of its own; ports that the system picks at first, and then the same ones again.

    Args:
        context: Of libzmq.
        secure: Sets what its sockets need for CURVE, if they are to speak it.
    """

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], secure: Callable[[zmq.Socket[bytes]], None] = lambda _: None
    ) -> None:
        self._context = context
        self._secure = secure
        self.endpoint = Endpoint(Scheme.ZEEK_ZMQ, "127.0.0.1")
        self.start()

    def start(self) -> None:
        control = f"inproc://control-{id(self)}"
        xsub, xpub, told = (self._context.socket(kind) for kind in (zmq.XSUB, zmq.XPUB, zmq.PAIR))
        self._teller = self._context.socket(zmq.PAIR)
        xpub.setsockopt(zmq.XPUB_VERBOSER, 1)
        xpub.setsockopt(zmq.XPUB_NODROP, 1)
        ports = []
        for socket, port in ((xpub, self.endpoint.port), (xsub, self.endpoint.xsub)):
            socket.setsockopt(zmq.LINGER, 0)
            self._secure(socket)
            socket.bind(f"tcp://127.0.0.1:{port or '*'}")
            ports.append(int(socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2]))
        told.bind(control)
        self._teller.connect(control)
        self.endpoint = Endpoint(Scheme.ZEEK_ZMQ, "127.0.0.1", ports[0], xsub=ports[1])
        self._thread = threading.Thread(target=_forward, args=(xsub, xpub, told))
        self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._teller.send(b"TERMINATE")
            self._thread.join()
            self._teller.close()


def _forward(xsub: zmq.Socket[bytes], xpub: zmq.Socket[bytes], told: zmq.Socket[bytes]) -> None:
    zmq.proxy_steerable(xsub, xpub, None, told)
    for socket in (xsub, xpub, told):
        socket.close()
