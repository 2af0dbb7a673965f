"""Reads files that people write, whole, or raises an error that names the place; files of CURVE keys.

A file of keys has one key a line, in Z85 as libzmq and Zeek write keys (`peers.zeek.zmtp.z85`); text behind a key,
empty lines and comments with `#` are for people. A secret key is readable only for its owner, from the
beginning.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from hub.settings.keys import ConfigError
from hub.settings.settings import ZeekSettings
from peers.zeek.zmtp.z85 import decode_key, encode_key

SECRET_MODE: Final = 0o600
_PUBLIC_MODE: Final = 0o644
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_LARGEST_KEYS_BYTES: Final = 16 * 1024 * 1024  # A quarter of a million keys


def read_file(path: Path, largest_bytes: int, what: str) -> bytes:
    """Return the content of a file; `what`, such as "a file of settings", is for the error."""
    try:
        with path.open("rb") as file:
            content = file.read(largest_bytes + 1)
    except FileNotFoundError as error:
        raise ConfigError(str(path), "", "there is no such file") from error
    except OSError as error:
        raise ConfigError(str(path), "", f"cannot be read: {error.strerror}") from error
    if len(content) > largest_bytes:
        raise ConfigError(str(path), "", f"larger than {largest_bytes} bytes, not {what}")
    return content


def read_toml(path: Path, largest_bytes: int, what: str) -> dict[str, object]:
    """Return the tables of a TOML file; the arguments are those of `read_file`."""
    return parse_toml(decoded(read_file(path, largest_bytes, what), str(path)), str(path))


def decoded(content: bytes, source: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(source, "", f"not UTF-8 (at line {line})") from error


def parse_toml(text: str, source: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError names the line; a number of thousands of digits is a plain ValueError
        raise ConfigError(source, "", f"not TOML: {error}") from error
    except RecursionError as error:
        raise ConfigError(source, "", "not TOML that can be read: nested too deep") from error


def check_private(descriptor: int, path: Path) -> None:
    """Raise a `ConfigError` if others than its owner can read or write a file."""
    mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
    if mode & _OTHERS:
        reason = f"others may read or write it (mode {mode:04o}); take that from them: chmod {SECRET_MODE:o} {path}"
        raise ConfigError(str(path), "", reason)


def read_clients(settings: ZeekSettings) -> frozenset[bytes]:
    """Return the public keys of nodes that may connect; none where no port for nodes speaks CURVE."""
    if not settings.curve_key:
        return frozenset()
    if not settings.curve_clients:
        reason = "missing: with zeek.curve_key, it names the file of the public keys of nodes that may connect"
        raise ConfigError("", "zeek.curve_clients", reason)
    return frozenset(_keys(settings.curve_clients))


def read_secret(path: str) -> bytes:
    """Return the only key of a file that only its owner may be able to read."""
    with suppress(OSError), Path(path).open("rb") as file:  # the read below has the error
        check_private(file.fileno(), Path(path))
    return read_public(path)


def write_secret(path: Path, key: bytes) -> None:
    _write(path, f"# Secret CURVE key of a topichub, or of nodes. Keep it secret.\n{encode_key(key)}\n", SECRET_MODE)


def write_public(path: Path, key: bytes) -> None:
    _write(path, f"# Public CURVE key.\n{encode_key(key)}\n", _PUBLIC_MODE)


def _write(path: Path, text: str, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except FileExistsError as error:
        reason = "exists, and a replaced key would lock out its users; remove it, or choose another name"
        raise ConfigError(str(path), "", reason) from error
    except OSError as error:
        raise ConfigError(str(path), "", f"cannot be made: {error.strerror}") from error
    with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 -- a descriptor is no path
        file.write(text)


def read_public(path: str) -> bytes:
    """Return the only key of a file."""
    keys = list(_keys(path))
    if len(keys) != 1:
        raise ConfigError(path, "", f"holds {len(keys)} CURVE keys, and one is expected; `hub curve new` makes it")
    return keys[0]


def _keys(path: str) -> Iterator[bytes]:
    content = read_file(Path(path), _LARGEST_KEYS_BYTES, "a file of CURVE keys")
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        words = line.split(maxsplit=1)
        if not words or words[0].startswith("#"):
            continue
        try:
            yield decode_key(words[0])
        except ValueError as error:
            raise ConfigError(path, "", f"line {number} is not a CURVE key in Z85: {error}") from error
