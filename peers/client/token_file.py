"""`read_token`: a token from a file, as `token=partial(read_token, path)` gives a fresh one to each connection.

Owner: nobody; the file is read anew each time, since something else may renew it. Not here: where the hub keeps the
hashes of tokens (`peers.users.token_file`).
"""

from __future__ import annotations

from pathlib import Path

from hub.errors import UsageError
from hub.topics import printable
from peers.client.token_source import checked
from peers.wire.token import TOKEN_LIMIT_BYTES

__all__ = ["read_token"]


def read_token(path: str) -> str:
    """Return the token in a file: one line, blanks around it are passed over.

    Raises:
        UsageError: The file cannot be read, or holds no such line. The text names the file, and shows nothing of it.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(TOKEN_LIMIT_BYTES + 1)
    except (OSError, ValueError) as error:  # a NUL in the path is a ValueError
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise UsageError(f"the file of the token {printable(path)} cannot be read: {reason}") from error
    try:
        token = content.decode().strip()
    except UnicodeDecodeError:
        token = ""
    if not token or not token.isprintable() or len(content) > TOKEN_LIMIT_BYTES:
        raise UsageError(f"the file {printable(path)} holds no token: one line of text is expected")
    return checked(token)
