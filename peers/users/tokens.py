"""`Tokens`: tokens by their hashes; `TokenFile`: the file that has them; `AdminToken`: the admin's, in clear.

A token is 256 random bits: `hub_` and 43 characters of base64url. The file has one JSON object a line; empty lines and
comments with `#` stay:

{"sha256":"9f86d0…","user":"alice","created":"2026-11-22T10:00:00Z","ends":"2026-12-22T10:00:00Z","label":"laptop"}

SHA-256, and no slow hash as for passwords: 2**256 tokens cannot be tried. A file is never readable for others than its
owner; it is changed under a lock and replaced whole, so that a hub reads the old one or the new one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import math
import os
import re
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NoReturn

import msgspec
from msgspec import Meta

from hub.errors import UsageError
from hub.policy.policy import ADMIN, RESERVED_USERS, check_user
from hub.settings.keys import ConfigError
from hub.topics import printable
from peers.users.files import SECRET_MODE, check_private

SCHEME = "hub_"  # Beginning of a token, so that people and scanners of sources recognise it
_SECRET_BYTES = 32
ID_DIGITS = 12  # Of a hash: 48 bits are unique among a million tokens
_MOST_TOKEN_CHARACTERS = 64  # Longer texts are no tokens and not worth a hash; tokens have 47
LABEL_CHARACTERS = 64  # Of a token
_Moment = Annotated[datetime, Meta(tz=True)]


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One token, without its text."""

    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    user: str
    created: _Moment
    ends: _Moment | None = None
    roles: tuple[str, ...] = ()  # Beside those of the policy
    label: Annotated[str, Meta(max_length=LABEL_CHARACTERS)] = ""

    @property
    def id(self) -> str:
        """Names the token for people; no secret."""
        return self.sha256[:ID_DIGITS]

    @property
    def until_s(self) -> float:
        return math.inf if self.ends is None else self.ends.timestamp()


_decoder = msgspec.json.Decoder(Token)


class Tokens:
    """The tokens of one file, by hash."""

    def __init__(self, by_hash: Mapping[str, Token]) -> None:
        self._by_hash = by_hash
        self._by_id = {token.id: token for token in by_hash.values()}

    def __len__(self) -> int:
        return len(self._by_hash)

    def find(self, secret: str) -> Token | None:
        """Return the token with this text, which may have ended, or None."""
        # The time of the look-up is no side channel: an attacker cannot choose the hashes of texts.
        if len(secret) > _MOST_TOKEN_CHARACTERS:
            return None
        shown = hash_of(secret)
        token = self._by_hash.get(shown)
        return token if token is not None and hmac.compare_digest(token.sha256, shown) else None

    def __iter__(self) -> Iterator[Token]:
        return iter(self._by_hash.values())

    def of_id(self, token_id: str) -> Token | None:
        return self._by_id.get(token_id)


NO_TOKENS = Tokens({})


def hash_of(secret: str) -> str:
    # Of the text as it is, so that no other text means the same token.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def new_secret() -> str:
    return SCHEME + secrets.token_urlsafe(_SECRET_BYTES)


def read_tokens(content: bytes, source: str) -> Tokens:
    """Read the content of a file of tokens; errors name the line and do not show it."""
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
        raise ConfigError(source, place, f"{printable(token.user)} is a reserved name")
    if not token.label.isprintable():
        raise ConfigError(source, place, "a label with characters that do not print")
    return token


_LARGEST_FILE_BYTES = 64 * 1024 * 1024  # A quarter of a million tokens
_HEAD = b"# Tokens of a topichub, hashed. Written by `hub token`; a running hub takes changes at `hub reload`.\n"


class TokenFile:
    """A file of tokens."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def read(self) -> Tokens:
        try:
            with self._path.open("rb") as file:
                return read_tokens(self._content(file.fileno()), str(self._path))
        except FileNotFoundError as error:
            reason = "there is no such file; `hub token new USER` makes it"
            raise ConfigError(str(self._path), "", reason) from error
        except OSError as error:
            self._fail("read", error)

    def add(
        self,
        user: str,
        created: datetime,
        *,
        ends: datetime | None = None,
        roles: tuple[str, ...] = (),
        label: str = "",
    ) -> tuple[str, Token]:
        """Make a token, and the file if there is none; return its text, which is not kept, and its line."""
        secret = new_secret()
        token = Token(hash_of(secret), user, created, ends, roles, label)
        line = msgspec.json.encode(token)
        read_tokens(line, "the token")
        with self._locked() as content:
            read_tokens(content, str(self._path))
            whole = content if not content or content.endswith(b"\n") else content + b"\n"
            self._replace((whole or _HEAD) + line + b"\n")
        return secret, token

    def revoke(self, token_id: str) -> Token:
        if not self._path.exists():
            self.read()
        with self._locked() as content:
            token = read_tokens(content, str(self._path)).of_id(token_id)
            if token is None:
                raise ConfigError(str(self._path), "", f"there is no token {token_id!a}; see `hub token list`")
            self._replace(without(content, token))
        return token

    @contextlib.contextmanager
    def _locked(self) -> Iterator[bytes]:
        try:
            descriptor = self._lock()
        except OSError as error:
            self._fail("written", error)
        try:
            yield self._content(descriptor)
        except OSError as error:
            self._fail("written", error)
        finally:
            os.close(descriptor)

    def _lock(self) -> int:
        while True:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, SECRET_MODE)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if os.path.samestat(os.fstat(descriptor), self._path.stat()):
                    return descriptor
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _content(self, descriptor: int) -> bytes:
        check_private(descriptor, self._path)
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(_LARGEST_FILE_BYTES + 1)
        if len(content) > _LARGEST_FILE_BYTES:
            raise ConfigError(str(self._path), "", f"larger than {_LARGEST_FILE_BYTES} bytes, not a file of tokens")
        return content

    def _replace(self, content: bytes) -> None:
        target = self._path.resolve()  # a symbolic link stays one
        was = target.stat()
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)  # with mode 0600
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 -- a descriptor is no path
                file.write(content)
                if was.st_uid != os.geteuid():  # root works on the file of the hub's own account
                    os.fchown(descriptor, was.st_uid, was.st_gid)
                file.flush()
                os.fsync(descriptor)
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _fail(self, verb: str, error: OSError) -> NoReturn:
        raise ConfigError(str(self._path), "", f"cannot be {verb}: {error.strerror or error}") from error


_FOLDER_MODE = 0o700
_MOST_BYTES = 1024
_SECRET = re.compile(r"hub_[A-Za-z0-9_-]{43,60}", re.ASCII)


def usual_place(environment: Mapping[str, str]) -> str:
    """Return the default path of the admin's token: in the state folder of this account."""
    state = environment.get("XDG_STATE_HOME", "")
    if not Path(state).is_absolute():  # the specification says that relative paths are ignored
        home = environment.get("HOME", "")
        if not Path(home).is_absolute():
            raise ConfigError("", "access.admin_token", "no HOME to keep the admin's token in; name a file for it")
        state = f"{home}/.local/state"
    return f"{state}/topichub/admin-token"


class AdminToken:
    """The file with the admin's token, in clear, for setting up a hub: its readers are admins."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def ensure(self) -> bool:
        """Make the file if it is not there; return whether it was made."""
        if self._path.exists():
            return False
        try:
            self._path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, SECRET_MODE)
        except OSError as error:
            reason = f"the admin's token cannot be kept here: {error.strerror}; name another file by access.admin_token"
            raise ConfigError(str(self._path), "", reason) from error
        with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 -- a descriptor is no path
            file.write(new_secret() + "\n")
        return True

    def secret(self) -> str:
        try:
            with self._path.open("rb") as file:
                check_private(file.fileno(), self._path)
                content = file.read(_MOST_BYTES)
        except OSError as error:
            raise ConfigError(str(self._path), "", f"cannot be read: {error.strerror}") from error
        text = content.decode("ascii", "replace").strip()
        if not _SECRET.fullmatch(text):
            reason = "holds no token of a hub; remove it, and the next start makes one"
            raise ConfigError(str(self._path), "", reason)
        return text

    def token(self) -> Token:
        return Token(hash_of(self.secret()), ADMIN, datetime.fromtimestamp(0, UTC), roles=(ADMIN,), label="first")
