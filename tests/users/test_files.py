"""Files that people write are read whole, or refused with one line that names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub.settings.config import ConfigError
from peers.users.files import read_file, read_toml


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"a = 1\nb = \xff", "not UTF-8 (at line 2)"),
        (b"a = 1\nb", "not TOML: "),
        (b"a = 1\na = 2", "not TOML: "),
        (b"a = " + b"9" * 5000, "not TOML: "),
        (b"a = " + b"[" * 20_000, "nested too deep"),
        (b" " * 100_001, "larger than 100000 bytes, not a policy"),
    ],
)
def test_what_is_no_toml(content: bytes, told: str, tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        read_toml(file, 100_000, "a policy")
    assert str(refused.value).startswith(f"{file}: ")
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_is_read(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_bytes(b"a = 1")
    assert read_file(file, 5, "a policy") == b"a = 1"
    assert read_toml(file, 5, "a policy") == {"a": 1}


def test_what_cannot_be_read(tmp_path: Path) -> None:
    for path, told in ((tmp_path / "none", "there is no such file"), (tmp_path, "cannot be read: Is a directory")):
        with pytest.raises(ConfigError) as refused:
            read_file(path, 5, "a policy")
        assert str(refused.value) == f"{path}: {told}"
