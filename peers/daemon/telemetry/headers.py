"""`read_headers`: what is sent to a collector with each request, such as who this is, from a file.

```
# a line each
Authorization: Bearer 5f0c...
```

Owner: nobody; the file is read once, at the start. What it holds is never shown.
"""

from __future__ import annotations

import re
from pathlib import Path

from hub.config import ConfigError
from hub.topics import printable

__all__ = ["read_headers"]

_LIMIT_BYTES = 65_536

_LINE = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x21-\x7e](?:[ \t\x21-\x7e]*[\x21-\x7e])?)[ \t]*")


def read_headers(path: str) -> dict[str, str]:
    """Return the headers of a file; none without one.

    Raises:
        ConfigError: It cannot be read, or a line is none; the text shows nothing of it.
    """
    if not path:
        return {}
    try:
        with Path(path).open("rb") as file:
            content = file.read(_LIMIT_BYTES + 1)
        lines = content.decode().splitlines() if len(content) <= _LIMIT_BYTES else None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or "it is no text"
        raise ConfigError("", "telemetry.headers", f"{printable(path)} cannot be read: {reason}") from error
    if lines is None:
        raise ConfigError("", "telemetry.headers", f"{printable(path)} has more than {_LIMIT_BYTES} bytes")
    headers: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            text = f"{printable(path)}, line {number}: expected a header such as 'Authorization: Bearer TOKEN'"
            raise ConfigError("", "telemetry.headers", text)
        headers[found[1]] = found[2]
    return headers
