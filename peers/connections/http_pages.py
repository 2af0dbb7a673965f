"""Plain HTTP on the WebSocket port: the page, health, readiness and metrics.

| path | answer |
|---|---|
| `/`, `/hub.js` and the page's other files | see `peers.console`; any page may load `/hub.js` and its types |
| `/healthz` | 200, or 503 if the clock has stopped, of this process or of the core's |
| `/readyz` | 200, or 503 with the reason while the hub starts or stops, or its journal cannot be written |
| `/metrics` | Prometheus text, see `peers.server.metrics`; for admins, and where `$hub/statistics` is granted |

Of a hub that is several processes, all are asked. Every answer ends its connection.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection, Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, NamedTuple

from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from hub.policy.policy import Action, Rights
from hub.requests.hub_services import Later
from hub.statistics.events import STATISTICS_TOPIC
from hub.topics import printable
from peers.console import page
from peers.server.metrics import CONTENT_TYPE, exposition
from peers.server.server import Server
from peers.websocket.http_session import path_of

_TEXT = "text/plain; charset=utf-8"

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page may load its own files, and connect to its own hub. No other page may show it in a frame."""

_PAGE_HEADERS = {"Vary": "Accept-Encoding", "Content-Security-Policy": _POLICY, "Referrer-Policy": "no-referrer"}
_SHARED_HEADERS = {"Access-Control-Allow-Origin": "*"}
_SHARED = frozenset({"/hub.js", "/hub.d.ts"})


_METHODS = frozenset({"GET", "HEAD"})

_GATHERED = {"/metrics": "metrics", "/readyz": "ready", "/healthz": "alive"}  # the question for all processes, by path

_FOR_ANYBODY = frozenset({"/healthz", "/readyz"})  # under any host: load balancers use names of their own


def is_guarded(path: str) -> bool:
    """Return whether a path needs authentication where there are users: all but the page, and health."""
    return path not in _FOR_ANYBODY and (path in _GATHERED or page(path) is None)


def denied(path: str, rights: Rights | None) -> str:
    if path != "/metrics" or rights is None or rights.is_admin or rights.may(Action.SUBSCRIBE, STATISTICS_TOPIC):
        return ""
    return f"/metrics is for admins, and for users who may subscribe to {STATISTICS_TOPIC}"


def ask_all(server: Server, request: Request) -> Later | None:
    """Ask all processes of this hub, where several have to be asked."""
    path = path_of(request)
    if server.whole is None or request.method not in _METHODS or (path == "/healthz" and server.clock_trouble):
        return None
    return server.whole.ask(_GATHERED[path]) if path in _GATHERED else None


def gathered(request: Request, later: Later) -> Response:
    if later.error is not None:
        return _for_method(request, plain(HTTPStatus.SERVICE_UNAVAILABLE, str(later.error)))
    made: dict[str, Callable[[Any], Response]] = {"/healthz": _health, "/readyz": _readiness, "/metrics": _metrics}
    return _for_method(request, made[path_of(request)](later.value))


def answer(server: Server, request: Request) -> Response:
    if request.method not in _METHODS:
        return plain(
            HTTPStatus.METHOD_NOT_ALLOWED,
            f"method {printable(request.method)}: GET and HEAD are answered",
            Allow="GET, HEAD",
        )
    return _for_method(request, _resource(server, path_of(request), takes_gzip=_takes_gzip(request)))


def _for_method(request: Request, response: Response) -> Response:
    if request.method == "HEAD":
        response.body = b""  # the length of the body that GET would get stays in the headers
    return response


def plain(status: HTTPStatus, text: str, **headers: str) -> Response:
    return _response(status, _TEXT, f"{text}\n".encode(), {"Cache-Control": "no-store"} | headers)


def _takes_gzip(request: Request) -> bool:
    for one in ",".join(request.headers.get_all("Accept-Encoding")).split(","):
        name, _, quality = one.replace(" ", "").lower().partition(";q=")
        if name == "gzip":
            return quality.strip("0.") != "" or not quality
    return False


def _resource(server: Server, path: str, *, takes_gzip: bool) -> Response:
    match path:
        case "/healthz":
            return _health(server.clock_trouble)
        case "/readyz":
            return _readiness(server.unready)
        case "/metrics":
            return _metrics(exposition(server))
    found = page(path)
    if found is None:
        text = f"there is nothing at {printable(path)}; WebSockets are at /v1/hub and /v1/messages/json"
        return plain(HTTPStatus.NOT_FOUND, text)
    headers = _PAGE_HEADERS | (_SHARED_HEADERS if path in _SHARED else {})
    headers["Cache-Control"] = "public, max-age=31536000, immutable" if found.is_immutable else "no-cache"
    if takes_gzip:
        headers["Content-Encoding"] = "gzip"
    return _response(HTTPStatus.OK, found.content_type, found.compressed if takes_gzip else found.body, headers)


def _health(trouble: str) -> Response:
    return plain(HTTPStatus.SERVICE_UNAVAILABLE if trouble else HTTPStatus.OK, trouble or "ok")


def _readiness(reason: str) -> Response:
    text = f"not ready: {reason}" if reason else "ready"
    return plain(HTTPStatus.SERVICE_UNAVAILABLE if reason else HTTPStatus.OK, text)


def _metrics(body: bytes) -> Response:
    return _response(HTTPStatus.OK, CONTENT_TYPE, body, {"Cache-Control": "no-store"})


def _response(status: HTTPStatus, content_type: str, body: bytes, headers: dict[str, str]) -> Response:
    return Response(
        status.value,
        status.phrase,
        Headers(
            {
                "Date": formatdate(usegmt=True),
                "Connection": "close",
                "Content-Length": str(len(body)),
                "Content-Type": content_type,
                "X-Content-Type-Options": "nosniff",
            }
            | headers
        ),
        body,
    )


# The checks of every HTTP request.


class Refused(NamedTuple):
    """The answer to a rejected request."""

    status: HTTPStatus
    text: str


def refused(  # noqa: PLR0913 -- each caller passes some of them
    request: Request,
    server: Server,
    *,
    loopback: bool,
    any_host: bool,
    is_websocket: bool = False,
    is_page: bool = False,
) -> Refused | None:
    """Check a request before anything else; return the answer that rejects it, or None.

    Programs may use any name for WebSockets, and web pages are checked by their origin. A browser sends `Origin` when a
    page publishes, or asks another hub than its own, but not when it follows events of its own hub. Then the host must
    be known, or a token recognised: a page that has made its own name point here has none. A hub without users
    recognises none.

    Args:
        request: The request.
        server: The hub.
        loopback: Whether the listener is bound to a loopback address.
        any_host: Whether no name can have been made to point here.
        is_websocket: Whether it is for a WebSocket.
        is_page: Whether it is for the page, health or metrics.
    """
    headers, settings = request.headers, server.settings.websocket
    host = read_host(headers.get_all("Host"), request.protocol)
    if host is None:
        return Refused(HTTPStatus.BAD_REQUEST, "a request needs one Host header that names a host")
    known = any_host or is_known(host.name, {*settings.hosts, *server.host_names}, loopback=loopback)
    origins = [] if is_page else headers.get_all("Origin")
    text = refusal(origins, host, settings.origins, loopback=loopback, is_host_known=known)
    if text:
        return Refused(HTTPStatus.FORBIDDEN, text)
    if known or is_websocket or origins:
        return None
    if path_of(request) in _FOR_ANYBODY if is_page else headers.get_all("Authorization") and not server.access.is_open:
        return None
    text = f"this hub is not known as {printable(host.name)}; to allow it, add it to the setting websocket.hosts"
    return Refused(HTTPStatus.MISDIRECTED_REQUEST, text)


CHALLENGE = {"WWW-Authenticate": 'Bearer realm="hub"'}

_SCHEME = "bearer "


def bearer(headers: Sequence[str]) -> str:
    """Return the token in `Authorization` headers (RFC 6750); empty if there are none.

    Anything but a single `Bearer` with a token is returned as a text that no token is: a wrong proof is not no proof.
    """
    if not headers:
        return ""
    shown = ", ".join(headers)
    if shown[: len(_SCHEME)].lower() != _SCHEME:
        return f" {shown}"
    return shown[len(_SCHEME) :].strip() or " "


ANY_HOST = "*"  # if this stands in `websocket.hosts`, the check is off

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[^\s/?#@\[\]:\\]{1,253})(?::([0-9]{1,5})?)?")

_PRIVATE_SUFFIXES = (".local", ".internal", ".home.arpa")  # no public names: RFC 6762, ICANN 2024, RFC 8375


class Host(NamedTuple):
    """A `Host` header."""

    name: str  # lower case, without a dot at its end; IPv6 in brackets; empty if HTTP/1.0 has no such header
    port: int | None  # none for the default of the scheme


def read_host(hosts: Sequence[str], protocol: str) -> Host | None:
    """Read the `Host` header; return None if the request must be answered by 400."""
    if not hosts and protocol == "HTTP/1.0":
        return Host("", None)
    found = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    if found is None:
        return None
    name = found[1].lower()
    if name.startswith("[") and _address(name) is None:
        return None
    return Host(name.removesuffix("."), int(found[2]) if found[2] else None)


def is_loopback(name: str) -> bool:
    """Return whether `Host.name` always means the machine of its user."""
    address = _address(name)
    if address is not None:
        return address.is_loopback
    return name == "localhost" or name.endswith(".localhost")


def is_known(name: str, allowed: Collection[str], *, loopback: bool) -> bool:
    """Return whether no stranger can have made a `Host.name` (DNS rebinding); `allowed` are names in lower case."""
    if not name or _address(name) is not None or is_loopback(name):
        return True
    if name in allowed or ANY_HOST in allowed:
        return True
    return not loopback and ("." not in name or name.endswith(_PRIVATE_SUFFIXES))


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name[1:-1] if name.startswith("[") else name)
    except ValueError:
        return None


_ORIGIN = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[^\s/?#@\[\]:\\]+)(?::([0-9]{1,5}))?")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def refusal(
    origins: Sequence[str], host: Host, allowed: Collection[str], *, loopback: bool, is_host_known: bool
) -> str:
    """Return why a page with these `Origin` headers may not connect; empty if it may (WebSocket hijacking)."""
    if not origins:
        return ""
    if len(origins) > 1:
        return "several Origin headers"
    origin = origins[0]
    page = _ORIGIN.fullmatch(origin)
    if origin in allowed or (page is not None and loopback and is_loopback(page[2])):
        return ""
    if page is not None:
        scheme, its_name, its_port = page.groups()
        default = _DEFAULT_PORTS[scheme]
        port = default if host.port is None else host.port
        is_here = its_name.removesuffix(".") == host.name and port == int(its_port or default)
    if page is not None and is_here:
        if is_host_known:
            return ""
        name = printable(host.name)
        return f"host {name} is not known to be this hub; to allow it, add it to the setting websocket.hosts"
    return f"origin {printable(origin)} may not connect; to allow it, add it to the setting websocket.origins"
