"""`TokenFile`: a file of hashed tokens on the disk: reading it, adding a token, taking one away.

Whoever changes it holds a lock on it, writes a new file beside it and puts that in its place, so that a hub that reads
it meanwhile reads the old one or the new one, whole. What people have written into it (comments) stays.

Invariants: it is never readable for others than its owner, not for a moment; a secret never goes into it.

Owner: the file. Cost: the whole file for each change. Not here: what its lines hold (`peers.users.tokens`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NoReturn

import msgspec

from hub.settings.config import ConfigError
from peers.users.tokens import Token, Tokens, hash_of, new_secret, read_tokens, without

_LARGEST_FILE_BYTES = 64 * 1024 * 1024
"""A quarter of a million tokens."""

_MODE = 0o600
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

_HEAD = b"# Tokens of a topichub, hashed. Written by `hub token`; a running hub takes changes at `hub reload`.\n"


def check_private(descriptor: int, path: Path) -> None:
    """See to it that nobody but its owner, and root, can read or write a file.

    Raises:
        ConfigError: Others can; the text says how to mend it.
    """
    mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
    if mode & _OTHERS:
        reason = f"others may read or write it (mode {mode:04o}); take that from them: chmod {_MODE:o} {path}"
        raise ConfigError(str(path), "", reason)


class TokenFile:
    """A file of tokens.

    Args:
        path: Where it is, or is to be.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def read(self) -> Tokens:
        """Return the tokens that it holds.

        Raises:
            ConfigError: There is none, others may read it, or a line is no token.
        """
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
        """Make a token, and the file if there is none.

        Args:
            user: Whose it is, a name as `check_user` takes it.
            created: Now.
            ends: When it ends; None for never.
            roles: What it vouches for.
            label: What it is for.

        Returns:
            Its text, which is nowhere else, and what stands in the file.

        Raises:
            ConfigError: The file cannot be read or written, or the token could not be read from it.
        """
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
        """Take a token away.

        Raises:
            ConfigError: There is none with this id, or the file cannot be read or written.
        """
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
        """Hold the lock of the file, made if it is not there, for as long as the block lasts; yield what it holds."""
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
        """Return a descriptor of the file that is there, locked, and not of one that was replaced meanwhile."""
        while True:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, _MODE)
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
        """Put a file with this content in the place of the one that is there, with the same owner."""
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
