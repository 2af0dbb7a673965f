"""What is answered over HTTP when something is refused: a status for each code of the hub, and one JSON object.

```json
{"error": {"code": 1007, "text": "no JSON: JSON is malformed", "line": 3}, "messages": 2}
```

No state, no I/O.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import msgspec

from hub.errors import CloseCode

__all__ = ["JSON_TYPE", "error_body", "json_body", "status_of"]

JSON_TYPE: Final = "application/json"

_STATUSES: Final = {
    CloseCode.PROTOCOL_ERROR: HTTPStatus.BAD_REQUEST,
    CloseCode.BAD_DATA: HTTPStatus.BAD_REQUEST,
    CloseCode.NOT_ALLOWED: HTTPStatus.FORBIDDEN,
    CloseCode.FORBIDDEN: HTTPStatus.FORBIDDEN,
    CloseCode.NOT_RECOGNISED: HTTPStatus.UNAUTHORIZED,
    CloseCode.TOO_BIG: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    CloseCode.INTERNAL_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
    CloseCode.GONE: HTTPStatus.GONE,
}


def status_of(code: int) -> HTTPStatus:
    """Return the status that says what a code does; 503, ask again later, for those that say so."""
    return _STATUSES.get(CloseCode(code), HTTPStatus.SERVICE_UNAVAILABLE)


def json_body(value: Any) -> bytes:
    """Return a value as the body of an answer: one line."""
    return msgspec.json.encode(value) + b"\n"


def error_body(code: int, text: str, line: int = 0, **beside: Any) -> bytes:
    """Return the body of an answer that says why something was refused."""
    error: dict[str, Any] = {"code": int(code), "text": text}
    if line:
        error["line"] = line
    return json_body({"error": error} | beside)
