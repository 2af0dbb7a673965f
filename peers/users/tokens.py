"""`Tokens`: who has which token, from a file that has only their hashes.

A token is 256 random bits: `hub_` and 43 characters of base64url. The file has one JSON object a line:

```
{"sha256":"9f86d0…","user":"alice","created":"2026-11-22T10:00:00Z","ends":"2026-12-22T10:00:00Z","label":"laptop"}
```

`ends`, `label` and `roles` may be absent. The first `ID_DIGITS` digits of the hash are the token's id, by which it is
shown, logged and revoked: they are of no use to anybody who wants to guess the rest. Lines that are empty or begin with
`#` are passed over.

Why SHA-256, and no slow hash as for passwords: nobody can try 2**256 tokens, however quickly each is tried. So whoever
reads the file can do nothing with it, and a token is checked in a microsecond.

Owner: nobody, a `Tokens` never changes. Cost: 3 µs a line to read; one hash for each token that is shown.

Not here: how the file is changed (`peers.users.token_file`).
"""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from hub.errors import UsageError
from hub.policy.policy import RESERVED_USERS, check_user
from hub.settings.config import ConfigError
from hub.topics import printable

SCHEME = "hub_"
"""What a token of a hub begins with, so that people and scanners of sources know it when they see one."""

_SECRET_BYTES = 32

ID_DIGITS = 12
"""How much of a hash is enough to tell a million tokens apart: 48 bits."""

_MOST_TOKEN_CHARACTERS = 64
"""What is longer is no token and not worth a hash; those that are have 47."""

LABEL_CHARACTERS = 64
"""The longest label of a token."""

_Moment = Annotated[datetime, Meta(tz=True)]


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is known of one token."""

    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    user: str
    created: _Moment
    ends: _Moment | None = None
    roles: tuple[str, ...] = ()
    """What the token vouches for, beside the roles that the policy gives its user."""
    label: Annotated[str, Meta(max_length=LABEL_CHARACTERS)] = ""
    """What it is for, for people."""

    @property
    def id(self) -> str:
        """By what it is shown and revoked; no secret."""
        return self.sha256[:ID_DIGITS]

    @property
    def until_s(self) -> float:
        """When it ends, s since 1970."""
        return math.inf if self.ends is None else self.ends.timestamp()


_decoder = msgspec.json.Decoder(Token)


class Tokens:
    """The tokens of one file.

    Args:
        by_hash: The hash of each → what is known of it.
    """

    __slots__ = ("_by_hash", "_by_id")

    def __init__(self, by_hash: Mapping[str, Token]) -> None:
        self._by_hash = by_hash
        self._by_id = {token.id: token for token in by_hash.values()}

    def __len__(self) -> int:
        return len(self._by_hash)

    def find(self, secret: str) -> Token | None:
        """Return the token whose text this is; None if it is none of these. It may have ended.

        Which bytes of hashes a look-up compares tells nothing: whoever tries texts cannot choose their hashes.
        """
        if len(secret) > _MOST_TOKEN_CHARACTERS:
            return None
        shown = hash_of(secret)
        token = self._by_hash.get(shown)
        return token if token is not None and hmac.compare_digest(token.sha256, shown) else None

    def __iter__(self) -> Iterator[Token]:
        return iter(self._by_hash.values())

    def of_id(self, token_id: str) -> Token | None:
        """Return the token with an id; None if there is none."""
        return self._by_id.get(token_id)


NO_TOKENS = Tokens({})


def hash_of(secret: str) -> str:
    """Return the hash of a token's text: of the text as it is, so that no other text means the same token."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def new_secret() -> str:
    """Return the text of a new token."""
    return SCHEME + secrets.token_urlsafe(_SECRET_BYTES)


def read_tokens(content: bytes, source: str) -> Tokens:
    """Read what a file of tokens holds.

    Args:
        content: The file's.
        source: The file's name, for errors.

    Raises:
        ConfigError: A line is no token; the text names it, and shows nothing of it.
    """
    by_hash: dict[str, Token] = {}
    ids: dict[str, int] = {}
    for number, line in _lines(content):
        place = f"line {number}"
        token = _token(line, source, place)
        if ids.setdefault(token.id, number) != number:
            raise ConfigError(source, place, f"the same token as in line {ids[token.id]}")
        by_hash[token.sha256] = token
    return Tokens(by_hash)


def without(content: bytes, token: Token) -> bytes:
    """Return what a file of tokens holds but for the line of one of them; comments and all else stay as they are."""
    lines = content.split(b"\n")
    for number, line in _lines(content):
        if _decoder.decode(line).sha256 == token.sha256:
            del lines[number - 1]
            break
    return b"\n".join(lines)


def _lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip() and not line.startswith(b"#"):
            yield number, line


def _token(line: bytes, source: str, place: str) -> Token:
    try:
        token = _decoder.decode(line)
        check_user(token.user)
        for role in token.roles:
            check_user(role)
    except (msgspec.DecodeError, UsageError, UnicodeDecodeError, RecursionError) as error:
        told = str(error) if str(error).isprintable() else printable(str(error))
        raise ConfigError(source, place, f"no token: {told}") from error
    if token.user in RESERVED_USERS:
        raise ConfigError(source, place, f"{printable(token.user)} is a name that the hub gives itself")
    if not token.label.isprintable():
        raise ConfigError(source, place, "a label with characters that do not print")
    return token
