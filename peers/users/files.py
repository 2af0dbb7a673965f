"""Reads files that people write, whole, or raises an error that names the place."""

from __future__ import annotations

import tomllib
from pathlib import Path

from hub.settings.keys import ConfigError


def read_file(path: Path, largest_bytes: int, what: str) -> bytes:
    """Return the content of a file; `what` it should be, such as "a file of settings", is for the error."""
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
    """Return the tables of a TOML text; the source is for the error, which names the line."""
    try:
        return tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError names the line; a number of thousands of digits is a plain ValueError
        raise ConfigError(source, "", f"not TOML: {error}") from error
    except RecursionError as error:
        raise ConfigError(source, "", "not TOML that can be read: nested too deep") from error
