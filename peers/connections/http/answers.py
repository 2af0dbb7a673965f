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

from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from hub.policy.policy import Action, Rights
from hub.requests.hub_services import Later
from hub.statistics.events import STATISTICS_TOPIC
from hub.topics import printable
from peers.console import page
from peers.server.metrics import CONTENT_TYPE, exposition
from peers.server.server import Server

_TEXT = "text/plain; charset=utf-8"

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page may load its own files, and connect to its own hub. No other page may show it in a frame."""

_PAGE_HEADERS = {
    "Vary": "Accept-Encoding",
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
}
_SHARED_HEADERS = {"Access-Control-Allow-Origin": "*"}
_SHARED = frozenset({"/hub.js", "/hub.d.ts"})


_METHODS = frozenset({"GET", "HEAD"})

_GATHERED = {"/metrics": "metrics", "/readyz": "ready", "/healthz": "alive"}
"""The question for all processes, by path."""

_FOR_ANYBODY = frozenset({"/healthz", "/readyz"})


def path_of(request: Request) -> str:
    """Return the path of a request without the query, not decoded."""
    return request.path.partition("?")[0]


def is_guarded(path: str) -> bool:
    """Return whether a path needs authentication where there are users: all but the page, and health."""
    return path not in _FOR_ANYBODY and (path in _GATHERED or page(path) is None)


def denied(path: str, rights: Rights | None) -> str:
    """Return why a user may not read a path; empty if they may."""
    if path != "/metrics" or rights is None or rights.is_admin or rights.may(Action.SUBSCRIBE, STATISTICS_TOPIC):
        return ""
    return f"/metrics is for admins, and for those who may subscribe to {STATISTICS_TOPIC}"


def ask_all(server: Server, request: Request) -> Later | None:
    """Ask all processes of this hub, where several have to be asked."""
    path = path_of(request)
    if server.whole is None or request.method not in _METHODS or (path == "/healthz" and server.clock_trouble):
        return None
    return server.whole.ask(_GATHERED[path]) if path in _GATHERED else None


def gathered(request: Request, later: Later) -> Response:
    """Answer a request that all processes were asked for."""
    if later.error is not None:
        return _for_method(request, plain(HTTPStatus.SERVICE_UNAVAILABLE, str(later.error)))
    made: dict[str, Callable[[Any], Response]] = {"/healthz": _health, "/readyz": _readiness, "/metrics": _metrics}
    return _for_method(request, made[path_of(request)](later.value))


def answer(server: Server, request: Request) -> Response:
    """Answer a request that is for no WebSocket."""
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
    """Answer with one line of text."""
    return _response(status, _TEXT, f"{text}\n".encode(), {"Cache-Control": "no-store"} | headers)


def _takes_gzip(request: Request) -> bool:
    """Return whether the client names gzip, and does not refuse it by a quality of 0."""
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
