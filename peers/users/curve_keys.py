"""CURVE keys on the disk: this hub's secret ones, the public ones of nodes that may connect, and those of brokers.

A file has one key a line, in Z85 as libzmq and Zeek write keys (`peers.zeek.zmtp.z85`); text behind a key, empty lines
and comments with `#` are for people. A secret key is readable only for its owner, not for a moment for others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from hub.settings.keys import ConfigError
from hub.settings.settings import ZeekSettings
from peers.users.files import read_file
from peers.users.tokens import check_private
from peers.zeek.zmtp.z85 import decode_key, encode_key

_LARGEST_FILE_BYTES: Final = 16 * 1024 * 1024  # A quarter of a million keys
_SECRET_MODE: Final = 0o600
_PUBLIC_MODE: Final = 0o644


def read_clients(settings: ZeekSettings) -> frozenset[bytes]:
    """Return the public keys of nodes that may connect; none where no port for nodes speaks CURVE."""
    if not settings.curve_key:
        return frozenset()
    if not settings.curve_clients:
        reason = "missing: with zeek.curve_key, it names the file of the public keys of nodes that may connect"
        raise ConfigError("", "zeek.curve_clients", reason)
    return frozenset(_keys(settings.curve_clients))


def read_public(path: str) -> bytes:
    """Return the one public key of a file."""
    return _one(path)


def read_secret(path: str) -> bytes:
    """Return the one secret key of a file, which only its owner may be able to read."""
    with suppress(OSError), Path(path).open("rb") as file:  # what is wrong then is told below
        check_private(file.fileno(), Path(path))
    return _one(path)


def write_secret(path: Path, key: bytes) -> None:
    """Make a file with a secret key, where there is none."""
    _write(path, f"# Secret CURVE key of a topichub, or of nodes. For nobody else.\n{encode_key(key)}\n", _SECRET_MODE)


def write_public(path: Path, key: bytes) -> None:
    """Make a file with a public key, where there is none."""
    _write(path, f"# Public CURVE key, for everybody.\n{encode_key(key)}\n", _PUBLIC_MODE)


def _write(path: Path, text: str, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except FileExistsError as error:
        reason = "is there already, and whoever has its key would be shut out; remove it, or choose another name"
        raise ConfigError(str(path), "", reason) from error
    except OSError as error:
        raise ConfigError(str(path), "", f"cannot be made: {error.strerror}") from error
    with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 -- a descriptor is no path
        file.write(text)


def _one(path: str) -> bytes:
    keys = list(_keys(path))
    if len(keys) != 1:
        raise ConfigError(path, "", f"holds {len(keys)} CURVE keys, and one is expected; `hub curve new` makes it")
    return keys[0]


def _keys(path: str) -> Iterator[bytes]:
    content = read_file(Path(path), _LARGEST_FILE_BYTES, "a file of CURVE keys")
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        words = line.split(maxsplit=1)
        if not words or words[0].startswith("#"):
            continue
        try:
            yield decode_key(words[0])
        except ValueError as error:
            raise ConfigError(path, "", f"line {number} is no CURVE key in Z85: {error}") from error
