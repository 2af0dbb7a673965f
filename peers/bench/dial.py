"""Connections of the load generators: plain blocking sockets, and the opening of a conversation on them.

No event loop, no client library: what is measured is the hub, and its clients should cost as little as they can.
"""

from __future__ import annotations

import base64
import secrets
import socket
from collections.abc import Callable

import msgspec

from hub.frame import encode_frame
from hub.overflow import Overflow
from peers.bench.errors import BenchError
from peers.bench.framing import Control, Framing, TcpFraming, WebSocketFraming, websocket_frame
from peers.bench.layout import Layout
from peers.transport.endpoints import Endpoint, Scheme
from peers.wire.control import encode_subscription
from peers.wire.hello import ID_BYTES, Hello, QueueWish
from peers.wire.kinds import Kind

__all__ = ["TIMEOUT_S", "Line", "Wish", "dial"]

TIMEOUT_S = 30.0
"""Within this the hub answers the opening, or the benchmark fails."""

_READ_BYTES = 64 * 1024
_HTTP_LIMIT_BYTES = 16 * 1024


class Wish(msgspec.Struct, frozen=True):
    """The queue that a subscriber asks the hub for; None leaves the hub's default."""

    messages: int | None = None
    bytes: int | None = None
    overflow: Overflow | None = None

    def as_map(self) -> dict[str, object]:
        """Return only what is wished."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}


class Line:
    """An open connection to the hub, in either protocol.

    Attributes:
        socket: Blocking.
        framing: How the hub's bytes are cut.
        held: Bytes that were read and not yet used.
        greeting: What the hub said of itself and granted.
    """

    __slots__ = ("framing", "greeting", "held", "requests", "socket", "websocket")

    def __init__(self, to: socket.socket, layout: Layout, *, websocket: bool) -> None:
        self.socket = to
        self.websocket = websocket
        self.framing: Framing = WebSocketFraming(layout) if websocket else TcpFraming(layout)
        self.held = b""
        self.greeting = Control(0, "greeting")
        self.requests = 0

    def fileno(self) -> int:
        """The descriptor of the socket."""
        return self.socket.fileno()

    def close(self) -> None:
        """Close the socket, without a word."""
        self.socket.close()

    @property
    def pong(self) -> bytes:
        """Return a pong that nobody asked for: a sign of life."""
        return websocket_frame(0xA, b"") if self.websocket else encode_frame(Kind.PONG, b"")

    def subscription(self, prefixes: list[str], request: int, *, subscribe: bool = True) -> bytes:
        """Return what tells the hub to subscribe, or unsubscribe."""
        if not self.websocket:
            return encode_subscription(Kind.SUBSCRIBE if subscribe else Kind.UNSUBSCRIBE, prefixes, request)
        word = "subscribe" if subscribe else "unsubscribe"
        return _binary({"type": word, "prefixes": prefixes, "request": request})

    def subscribe(self, prefixes: list[str]) -> None:
        """Subscribe, and wait until the hub has confirmed it."""
        self.requests += 1
        request = self.requests
        self.socket.sendall(self.subscription(prefixes, request))
        self.wait(lambda control: control.word == "confirmed" and control.request == request)

    def wait(self, found: Callable[[Control], bool]) -> Control:
        """Read until what is looked for has come; messages before it are an error.

        Raises:
            BenchError: The hub refused, closed, or said nothing in time.
        """
        buffer = bytearray(self.held)
        while True:
            frame = self.framing.at(buffer, 0, len(buffer))
            if frame is None:
                data = self._receive()
                buffer += data
                continue
            del buffer[: frame.size]
            if not isinstance(frame, Control):
                raise BenchError("messages came before the benchmark had begun")
            if frame.word in {"error", "close"}:
                raise BenchError(f"the hub says: {frame.text} ({frame.code})")
            if frame.answer:
                self.socket.sendall(frame.answer)
            if found(frame):
                self.held = bytes(buffer)
                return frame

    def upgrade(self, endpoint: Endpoint) -> None:
        """Do the HTTP part of a WebSocket's opening.

        Raises:
            BenchError: The hub refuses.
        """
        key = base64.b64encode(secrets.token_bytes(16)).decode()
        self.socket.sendall(
            f"GET {endpoint.path or '/v1/hub'} HTTP/1.1\r\nHost: {endpoint.host}:{endpoint.port}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: hub.v1.msgpack\r\n\r\n".encode()
        )
        answer = b""
        while b"\r\n\r\n" not in answer:
            if len(answer) > _HTTP_LIMIT_BYTES:
                raise BenchError("the WebSocket's opening is answered without end")
            answer += self._receive()
        head, _, self.held = answer.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101 "):
            raise BenchError(f"the hub refuses the WebSocket: {head.partition(bytes((13,)))[0].decode('latin-1')}")

    def _receive(self) -> bytes:
        try:
            data = self.socket.recv(_READ_BYTES)
        except TimeoutError:
            raise BenchError(f"the hub said nothing for {TIMEOUT_S:g} s") from None
        except OSError as error:
            raise BenchError(f"the connection to the hub broke: {error}") from error
        if not data:
            raise BenchError("the hub closed the connection without a word")
        return data


def dial(  # noqa: PLR0913 -- the only place where connections are made
    url: str, layout: Layout, name: str, *, wish: Wish | None = None, link: bool = False, receive_bytes: int = 0
) -> Line:
    """Connect and greet.

    Args:
        url: tcp, unix or ws.
        layout: Of the messages that will come.
        name: For people who look at the hub meanwhile.
        wish: Of the queue.
        link: Say that this is a peer hub, with an id of its own. Not with ws.
        receive_bytes: Size of the kernel's receive buffer, 0 leaves it.

    Raises:
        BenchError: No hub there, or it refuses.
    """
    endpoint = Endpoint.parse(url)
    line = Line(_connect(endpoint, url, receive_bytes), layout, websocket=endpoint.scheme is Scheme.WS)
    try:
        if endpoint.scheme is Scheme.WS:
            line.upgrade(endpoint)
            line.wait(_is_greeting)
            line.socket.sendall(_binary({"type": "hello", "name": name, "queue": (wish or Wish()).as_map()}))
        else:
            queue = QueueWish(wish.messages, wish.bytes, wish.overflow) if wish is not None else None
            role, own_id = ("hub", secrets.token_bytes(ID_BYTES)) if link else ("client", b"")
            hello = Hello(protocol=1, role=role, id=own_id, name=name, software="hub bench", queue=queue)  # type: ignore[arg-type]
            line.socket.sendall(hello.encode())
        line.greeting = line.wait(_is_greeting)
    except BaseException:
        line.close()
        raise
    return line


def _connect(endpoint: Endpoint, url: str, receive_bytes: int) -> socket.socket:
    unix = endpoint.scheme is Scheme.UNIX
    made = socket.socket(socket.AF_UNIX if unix else _family(endpoint.host), socket.SOCK_STREAM)
    try:
        if receive_bytes:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        made.settimeout(TIMEOUT_S)
        if unix:
            made.connect(endpoint.path)
        else:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.connect((endpoint.host, endpoint.port))
    except OSError as error:
        made.close()
        raise BenchError(f"no connection to {url}: {error}") from error
    return made


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _is_greeting(control: Control) -> bool:
    return control.word == "greeting"


def _binary(message: dict[str, object]) -> bytes:
    return websocket_frame(2, msgspec.msgpack.encode(message))
