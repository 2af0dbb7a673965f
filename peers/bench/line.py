"""`Line`: one connection of a load generator: a plain blocking socket, and the opening of a conversation on it.

There is no event loop and no client library: what is measured is the hub, and its clients should cost as little as they
can. Owner of the state: whoever has dialled. Cost: a `recv` for each read, and what `peers.bench.framing` costs.

Not here: reading messages, which `peers.bench.subscriber` does.
"""

from __future__ import annotations

import base64
import secrets
import socket
from collections.abc import Callable

import msgspec
from websockets.frames import Opcode

from peers.bench.errors import BenchError
from peers.bench.framing import Control, Framing, cut_tcp, cut_websocket, websocket_frame
from peers.bench.layout import Layout
from peers.transport.endpoints import Endpoint, Scheme
from peers.wire.control import encode_subscription
from peers.wire.hello import ID_BYTES, PROTOCOL, Hello, QueueWish
from peers.wire.kinds import Kind

__all__ = ["Line", "dial"]

_TIMEOUT_S = 30.0
"""Within this the hub answers the opening, or the benchmark fails."""

_READ_BYTES = 64 * 1024
_HTTP_LIMIT_BYTES = 16 * 1024


class Line:
    """An open connection to the hub, in either protocol.

    Attributes:
        socket: It is blocking.
        layout: What messages look like.
        cut: How the hub's bytes are cut.
        held: Bytes that were read and not yet used.
        granted: The queue that the hub has granted, as far as it said so.
    """

    __slots__ = ("_is_websocket", "_requests", "cut", "granted", "held", "layout", "socket")

    def __init__(self, to: socket.socket, layout: Layout, *, websocket: bool) -> None:
        self.socket = to
        self.layout = layout
        self.cut: Framing = cut_websocket if websocket else cut_tcp
        self.held = bytearray()
        self.granted = QueueWish()
        self._is_websocket = websocket
        self._requests = 0

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self.socket.fileno()

    def close(self) -> None:
        """Close the socket, without a word."""
        self.socket.close()

    def say(self, message: dict[str, object]) -> None:
        """Send a message over a WebSocket."""
        self.socket.sendall(websocket_frame(Opcode.BINARY, msgspec.msgpack.encode(message)))

    def subscribe(self, prefixes: list[str]) -> None:
        """Subscribe, and wait until the hub has confirmed it."""
        self._requests += 1
        request = self._requests
        if self._is_websocket:
            self.say({"type": "subscribe", "prefixes": prefixes, "request": request})
        else:
            self.socket.sendall(encode_subscription(Kind.SUBSCRIBE, prefixes, request))
        self.wait(lambda control: control.word == "confirmed" and control.request == request)

    def wait(self, found: Callable[[Control], bool]) -> Control:
        """Read until what is looked for has come.

        Raises:
            BenchError: The hub refused, closed or said nothing in time, or messages came.
        """
        while True:
            for control in iter(self.control, None):
                if found(control):
                    return control
            self.held += self._receive()

    def listen(self) -> list[Control]:
        """Take what the hub has to say, without waiting.

        Raises:
            BenchError: As `wait` does.
        """
        try:
            self.held += self._receive(socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        return list(iter(self.control, None))

    def control(self) -> Control | None:
        """Cut off and answer the first frame of what is held; return None while it is not whole.

        Raises:
            BenchError: The hub refuses something or closes, or the frame holds messages.
        """
        frame = self.cut(self.layout, self.held, 0, len(self.held))
        if frame is None:
            return None
        del self.held[: frame.size]
        if not isinstance(frame, Control):
            raise BenchError("messages came where there should be none")
        if frame.word in {"error", "close"}:
            raise BenchError(f"the hub says: {frame.text} ({frame.code})")
        if frame.answer:
            self.socket.sendall(frame.answer)
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
        while (end := self.held.find(b"\r\n\r\n")) < 0:
            if len(self.held) > _HTTP_LIMIT_BYTES:
                raise BenchError("the WebSocket's opening is answered without end")
            self.held += self._receive()
        head = self.held[:end].decode("latin-1").splitlines()[0]
        del self.held[: end + 4]
        if not head.startswith("HTTP/1.1 101 "):
            raise BenchError(f"the hub refuses the WebSocket: {head}")

    def _receive(self, flags: int = 0) -> bytes:
        try:
            data = self.socket.recv(_READ_BYTES, flags)
        except TimeoutError:
            raise BenchError(f"the hub said nothing for {_TIMEOUT_S:g} s") from None
        except BlockingIOError:
            raise
        except OSError as error:
            raise BenchError(f"the connection to the hub broke: {error}") from error
        if not data:
            raise BenchError("the hub closed the connection without a word")
        return data


def dial(  # noqa: PLR0913 -- the only place where conversations are opened
    url: str,
    layout: Layout,
    name: str,
    *,
    wish: QueueWish | None = None,
    link: bool = False,
    through: socket.socket | None = None,
) -> Line:
    """Connect and greet.

    Args:
        url: Of the hub: tcp, unix or ws.
        layout: Of the messages that will come.
        name: For people who look at the hub meanwhile.
        wish: The queue that the hub is asked for; None leaves it the hub's default.
        link: Whether to say that this is a peer hub, with an id of its own. It excludes ws.
        through: A socket that is connected to the hub already; None makes one.

    Raises:
        BenchError: There is no hub, or it refuses.
    """
    endpoint = Endpoint.parse(url)
    line = Line(through or _connect(endpoint, url), layout, websocket=endpoint.scheme is Scheme.WS)
    try:
        if endpoint.scheme is Scheme.WS:
            line.upgrade(endpoint)
            line.wait(_is_greeting)
            line.say({"type": "hello", "name": name, "queue": msgspec.to_builtins(wish or QueueWish())})
        else:
            own_id = secrets.token_bytes(ID_BYTES) if link else b""
            hello = Hello(PROTOCOL, "hub" if link else "client", own_id, name, "hub bench", queue=wish)
            line.socket.sendall(hello.encode())
        line.granted = line.wait(_is_greeting).queue
    except BaseException:
        line.close()
        raise
    return line


def _connect(endpoint: Endpoint, url: str) -> socket.socket:
    try:
        if endpoint.scheme is Scheme.UNIX:
            made = socket.socket(socket.AF_UNIX)
            made.settimeout(_TIMEOUT_S)
            made.connect(endpoint.path)
        else:
            made = socket.create_connection((endpoint.host, endpoint.port), _TIMEOUT_S)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise BenchError(f"no connection to {url}: {error.strerror or error}; is a hub running there?") from error
    return made


def _is_greeting(control: Control) -> bool:
    return control.word == "greeting"
