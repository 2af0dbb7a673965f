"""`RemoteEnd`: the base of connections to the sockets of a Zeek node, or of a central broker.

It becomes a leaf of the hub with the end of the handshake. A far side that is rejected or closed gets no reason: ZeroMQ
has no message for it that Zeek survives, so the reason is in the log.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from hub.errors import NotRecognisedError, UsageError
from hub.handlers.delivery import Role
from hub.limits import QueueLimits
from hub.messages.batch import Batch
from hub.routing.subscriptions import OnFilter
from hub.settings.keys import ConfigError
from hub.settings.settings import ZeekSettings
from peers.connections.connection import Connection
from peers.connections.conversation import ZeekConversation
from peers.users.files import read_public, read_secret
from peers.zeek.zmtp.session import NULL, Ended, Fault, Mechanism, Session


def need_curve() -> None:
    try:
        import nacl.bindings  # noqa: F401, PLC0415 -- optional, and slow to import
    except ImportError as error:
        raise UsageError("CURVE needs PyNaCl, which is not installed: pip install 'topichub[curve]'") from error


class Mechanisms:
    """Makes the mechanism of each connection; raises `ConfigError`, and `UsageError` without PyNaCl.

    Args:
        settings: With the files of keys.
        allows: Whether a node with this public key may come in; asked in each handshake.
    """

    def __init__(self, settings: ZeekSettings, allows: Callable[[bytes], bool]) -> None:
        self.served: Callable[[], Mechanism] = lambda: NULL  # of a node that has come
        self.dialled: Callable[[], Mechanism] = lambda: NULL  # of a broker
        if settings.curve_clients and not settings.curve_key:
            raise ConfigError("", "zeek.curve_key", "missing: without it, zeek.curve_clients has no effect")
        if bool(settings.curve_broker) is not bool(settings.curve_node_key):
            missing = "curve_node_key" if settings.curve_broker else "curve_broker"
            raise ConfigError("", f"zeek.{missing}", "missing: zeek.curve_broker and zeek.curve_node_key go together")
        if not (settings.curve_key or settings.curve_broker):
            return
        need_curve()
        from peers.zeek.zmtp.curve import CurveClient, CurveServer, KeyPair  # noqa: PLC0415 -- as above

        if settings.curve_key:
            keys = KeyPair.of_secret(read_secret(settings.curve_key))
            self.served = lambda: CurveServer(keys, allows)
        if settings.curve_broker:
            own, server = KeyPair.of_secret(read_secret(settings.curve_node_key)), read_public(settings.curve_broker)
            self.dialled = lambda: CurveClient(own, server)


NO_CURVE = Mechanisms(ZeekSettings(), lambda _: False)


LINES_PER_SECOND: Final = 8  # of the log, about one node
_SECOND_S: Final = 1.0


class Complaints:
    """Log lines about one kind of bad input of a node, at a bounded rate."""

    def __init__(self, connection: Connection, text: str) -> None:
        self._connection = connection
        self._text = text
        self._count, self._reason = 0, ""  # of input that is not logged yet
        self._lines_left, self._again_s = 0, 0.0

    def add(self, reason: str) -> None:
        """Log bad input, now or with the next."""
        self._count += 1
        self._reason = reason
        now_s = self._connection.server.loop.time()
        if now_s >= self._again_s:
            self._again_s = now_s + _SECOND_S
            self._lines_left = LINES_PER_SECOND
        if self._lines_left:
            self._lines_left -= 1
            self._tell()

    def end(self) -> None:
        if self._count:
            self._tell()

    def _tell(self) -> None:
        connection, count = self._connection, self._count
        self._count = 0
        name, address = connection.far_name, connection.address
        connection.server.log.warning(self._text, address=address, name=name, reason=self._reason, messages=count)


_LOOK_S: Final = 1.0  # how soon a hub parts that has become one of the same mesh

SEALED_WRITE_COST: Final = 64  # cost of a byte in boxes: an event of 150 bytes is 4 boxes, which take 11 µs

PROOF_COST: Final = 10  # a step of a handshake with CURVE, 0.1 to 0.15 ms, counts as so many changes

_KEEPALIVE: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 30), ("TCP_KEEPCNT", 6))
"""The kernel gives a silent far side up after 4 minutes."""


class RemoteEnd(ZeekConversation):
    """One socket of a node."""

    session: Session
    is_dialled = False  # whether it is a central broker, which this hub has dialled

    def __init__(self, connection: Connection, queue: QueueLimits, session: Session) -> None:
        super().__init__(connection, queue, session)
        self._skipped = Complaints(connection, "skipped invalid data from a Zeek node")
        self._has_broken = False  # the protocol, behind its handshake
        self._looking: asyncio.TimerHandle | None = None  # set while a hub may join the same mesh

    @property
    def scheme(self) -> str:
        return "zeek+zmq"

    @property
    def is_quiet(self) -> bool:
        return self._has_broken or self.session.fault is not None

    def begin(self, refusal: str) -> None:
        if refusal:
            self._connection.reason = refusal
            self._connection.transport.abort()
            return
        sock = self._connection.transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _KEEPALIVE:
                if hasattr(socket, name):  # not every system has all of them
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def end_of_stream(self) -> None:
        self.session.feed_eof()

    def _become_leaf(self, on_filter: OnFilter | None = None) -> bool:
        server, connection = self._server, self._connection
        if self.is_dialled and self._is_of_mesh():
            self._part()
            return False
        try:
            self._enter_zeek(dialled=self.is_dialled, key=self.session.far_key)
        except NotRecognisedError as error:
            connection.turn_away(error)
            return False
        handler = self._join(Role.LEAF)
        if self.session.is_sealed:
            handler.make_dear(SEALED_WRITE_COST)
        handler.restrict(itself=False, leaves=not self.is_dialled)  # the other connection to that broker is a leaf, too
        server.core.attach(handler, on_filter)
        server.core.authority.on_refused[handler] = self._refuse_messages
        connection.charge_user()
        connection.opened()
        if self.is_dialled and self.session.remote_hub:
            self._look_again()
        return True

    # A cluster is not joined at a hub of the same mesh: events would come by its links, too, and go around without end.

    def _is_of_mesh(self) -> bool:
        return self.session.remote_hub in self._server.core.mesh.graph.reached  # which this hub itself is, too

    def _part(self) -> None:
        connection = self._connection
        connection.reason = (
            f"the broker is hub {self.session.remote_hub.hex()}, of the same mesh: it brings all by links"
        )
        self._server.log.warning("Zeek cluster not joined", address=connection.address, reason=connection.reason)
        connection.transport.abort()

    def _look_again(self) -> None:
        self._looking = self._server.loop.call_later(_LOOK_S, self._connection.guard, self._look)

    def _look(self) -> None:
        if self._is_of_mesh():
            self._part()
        else:
            self._look_again()

    def skip(self, reason: str) -> None:
        self._connection.count_rejected()
        self._skipped.add(reason)

    def _finish(self, ended: Ended) -> None:
        connection = self._connection
        connection.reason = connection.reason or ended.text
        if (fault := self.session.fault) is not None:
            self._server.zeek.failed_handshakes[fault.value] += 1
            if not self.is_dialled:  # a dialler tells why there is no link
                self._log_fault(fault, ended.text)
        elif not ended.by_far_side:
            self._has_broken = True
            self._server.zeek.broken_connections += 1
            text = "a Zeek node broke the protocol"
            self._server.log.warning(text, address=connection.address, name=connection.far_name, reason=ended.text)
        connection.transport.abort()  # a node may exit at a message, and has nothing to read

    def _log_fault(self, fault: Fault, reason: str) -> None:
        """Log a failed handshake, for one host and fault once a minute."""
        address = self._connection.address
        key = (address.rpartition(":")[0], fault)
        if handshakes := self._server.lines.add(key, self._server.loop.time()):
            text = "handshake with a Zeek node failed"
            self._server.log.warning(text, address=address, reason=reason, kind=fault.value, handshakes=handshakes)

    def render(self, batches: list[Batch]) -> list[bytes]:  # noqa: ARG002 -- only a `Subscriber` has subscriptions
        return []

    def ping(self) -> None:
        """Accept silence: a node that is closed for it would never be up again for its cluster."""
        self._connection.hear()

    def time_out(self) -> None:
        self._connection.reason = f"no handshake within {self._server.settings.limits.handshake_s:g} s"
        self._connection.transport.abort()

    def close(self, code: int, text: str) -> str:
        self.session.end()  # the far side learns it from the end of the stream
        return f"{text} ({int(code)})"

    def leave(self, reason: str) -> None:
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        self._skipped.end()
        handler = self._connection.handler
        if handler is not None and handler.id in self._server.core.handlers:
            self._server.core.detach(handler, reason)
            self._server.vacancies.tell()
