"""`hub check`: one line of text, and an exit code for health checks.

Over TCP and Unix sockets the question is HELLO, over HTTP it is GET /readyz. It uses plain blocking sockets, as it runs
every few seconds in every container, and starts in a fraction of the time of an event loop and a client.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from enum import IntEnum
from typing import Annotated

from cyclopts import Parameter

from hub.errors import CloseCode, ConnectionLostError, HubError, ProtocolError, RejectedError
from hub.topics import printable
from peers.cli.contexts import DEFAULT_URL, URL_VARIABLE, ContextName, TlsFiles, TokenFile, first_token
from peers.cli.texts import FlagError, check_positive, encoder, escaped
from peers.transport.endpoints import Endpoint, Scheme, url_host
from peers.transport.tls import client_context, explained
from peers.wire.events import Closing
from peers.wire.hello import PROTOCOL, Hello
from peers.wire.scanner import NEED_DATA
from peers.wire.session import Session

_TIMEOUT_S = 5.0
_ANSWER_BYTES = 64 * 1024
_READ_BYTES = 16 * 1024


class Health(IntEnum):
    """Health of a hub; the number is the exit code."""

    OK = 0
    WARNING = 1
    CRITICAL = 2


def check(  # noqa: PLR0913 -- one flag each
    url: Annotated[
        str,
        Parameter(
            env_var=URL_VARIABLE,
            help="tcp://, tls://, ws://, wss://, http:// or https:// with host:port, or unix:///path.",
        ),
    ] = DEFAULT_URL,
    *,
    timeout: Annotated[float, Parameter(help="Time limit of the whole check, seconds.")] = _TIMEOUT_S,
    warn_ms: Annotated[float | None, Parameter(help="Warn if the answer takes longer, milliseconds.")] = None,
    quiet: Annotated[bool, Parameter(help="Print nothing.")] = False,
    json: Annotated[bool, Parameter(help="A JSON object.")] = False,
    context: ContextName = "",  # noqa: ARG001 -- it has become `url` and the files beside it
    token_file: TokenFile = "",
    tls: TlsFiles | None = None,
) -> int:
    """Check that a hub answers: exit code 0 if it does, 1 if slowly, 2 if not."""
    check_positive("--timeout", timeout, "seconds")
    if warn_ms is not None and not warn_ms >= 0:  # so that `nan` is none either
        raise FlagError(f"--warn-ms {warn_ms:g}: give 0 or more milliseconds")
    if json and quiet:
        raise FlagError("--json and --quiet exclude each other")
    files = tls or TlsFiles()
    token = first_token(token_file)
    health, text, passed_ms = Health.OK, "", None
    started_s = time.monotonic()
    try:
        is_http = url.startswith(("http://", "https://"))
        endpoint = Endpoint.parse_remote("ws" + url.removeprefix("http") if is_http else url)
        context_of_tls = client_context(files.ca, files.certificate, files.key) if endpoint.scheme.is_secure else None
        answer = _ask(endpoint, context_of_tls, token, started_s + timeout, timeout)
    except HubError as error:
        health, text = Health.CRITICAL, str(error)
    else:
        passed_ms = (time.monotonic() - started_s) * 1000
        text = f"{endpoint.location}: {answer} in {passed_ms:.1f} ms"
        if warn_ms is not None and passed_ms > warn_ms:
            health, text = Health.WARNING, f"{text}, more than {warn_ms:g} ms"
    name = health.name.lower()
    if json:
        print(escaped(encoder.encode({"url": url, "health": name, "text": text, "ms": passed_ms}).decode()), flush=True)
    elif not quiet:
        print(f"{name}: {escaped(text)}", flush=True)
    return int(health)


def answer_of(endpoint: Endpoint, timeout_s: float) -> str:
    """Ask a hub without credentials for its health; TLS is not verified. Raises `HubError` if no hub answers."""
    tls = None
    if endpoint.scheme.is_secure:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return _ask(endpoint, tls, "", time.monotonic() + timeout_s, timeout_s)


def _ask(endpoint: Endpoint, tls: ssl.SSLContext | None, token: str, deadline_s: float, timeout_s: float) -> str:
    """Ask the hub for its health; return its description, or raise `HubError` with its place."""
    place = endpoint.location
    try:
        with _connected(endpoint, tls, deadline_s) as connection:

            def read() -> bytes:
                connection.settimeout(_left_s(deadline_s))
                return connection.recv(_READ_BYTES)

            if endpoint.scheme.is_websocket:
                return _ask_http(connection, endpoint, read)
            return _ask_hub(connection, token, read)
    except TimeoutError as error:
        raise HubError(f"{place}: no answer within {timeout_s:g} s") from error
    except OSError as error:
        hint = "; is a hub running there?" if isinstance(error, ConnectionRefusedError | FileNotFoundError) else ""
        reason = explained(error, endpoint.host) or f"{error.strerror or error}{hint}"
        raise HubError(f"{place}: {reason}") from error
    except HubError as error:
        raise HubError(f"{place}: {error}") from error


def _connected(endpoint: Endpoint, tls: ssl.SSLContext | None, deadline_s: float) -> socket.socket:
    if endpoint.scheme is not Scheme.UNIX:
        plain = socket.create_connection((endpoint.host, endpoint.port), _left_s(deadline_s))
        return plain if tls is None else tls.wrap_socket(plain, server_hostname=endpoint.host)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_left_s(deadline_s))
    try:
        connection.connect(endpoint.path)
    except BaseException:
        connection.close()
        raise
    return connection


def _left_s(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


class _NoRoutes:
    """Routes of a client that has not subscribed: a hub that sends it messages breaks the protocol."""

    def __init__(self) -> None:
        # Always empty: every message is a miss.
        self.table: dict[bytes, None] = {}

    def miss(self, _: bytes) -> None:
        raise RejectedError(CloseCode.PROTOCOL_ERROR, "a message before any subscription")


def _ask_hub(connection: socket.socket, token: str, read: Callable[[], bytes]) -> str:
    """Exchange HELLO with a hub, and close; return the description of the hub."""
    session: Session[None] = Session("client", _NoRoutes(), _ANSWER_BYTES)
    connection.sendall(Hello(protocol=PROTOCOL, role="client", name="hub check", token=token).encode())
    while chunk := read():
        session.feed(chunk)
        while (event := session.next_event()) is not NEED_DATA:
            match event:
                case Closing(code, text):
                    raise RejectedError(code, text)
                case Hello():
                    session.close(CloseCode.DONE, "checked")
                    connection.sendall(session.take_outgoing())
                    return f"hub {printable(event.name)} ({printable(event.software)[1:-1]}) answers"
    raise ConnectionLostError(CloseCode.PROTOCOL_ERROR, "closed before HELLO; is that the port of a hub?")


def _ask_http(connection: socket.socket, endpoint: Endpoint, read: Callable[[], bytes]) -> str:
    host = url_host(endpoint.host)
    request = f"GET /readyz HTTP/1.1\r\nHost: {host}:{endpoint.port}\r\nConnection: close\r\n\r\n"
    connection.sendall(request.encode("idna" if not host.isascii() else "ascii"))
    answer = b""
    while b"\r\n" not in answer and len(answer) < _ANSWER_BYTES and (chunk := read()):
        answer += chunk
    version, _, rest = answer.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    if not version.startswith("HTTP/1."):
        raise ProtocolError(CloseCode.PROTOCOL_ERROR, "the answer is not HTTP; is that the WebSocket port of a hub?")
    if not rest.startswith("200"):
        raise RejectedError(CloseCode.TRY_AGAIN_LATER, f"GET /readyz: {printable(rest)}")
    return "ready"
