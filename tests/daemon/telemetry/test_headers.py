"""Headers for a collector."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub.config import ConfigError
from peers.daemon.telemetry.headers import read_headers


def test_a_line_each(tmp_path: Path) -> None:
    """Comments and empty lines are passed over; a value may have blanks within."""
    path = tmp_path / "headers"
    path.write_text("# who this is\n\nAuthorization:  Bearer abc \nx-tenant: a b\n")
    assert read_headers(str(path)) == {"Authorization": "Bearer abc", "x-tenant": "a b"}
    assert read_headers("") == {}


@pytest.mark.parametrize("text", ["secret", "secret:", ": secret", "a b: secret", "a: sec\x00ret", "a: sécret"])
def test_what_is_none(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """The line is named, and nothing of it is shown."""
    path = tmp_path_factory.mktemp("named") / "headers"  # not `tmp_path`, which has this text in it
    path.write_text(f"a: b\n{text}\n")
    with pytest.raises(ConfigError, match=r"telemetry.headers: .*line 2: expected a header") as told:
        read_headers(str(path))
    assert "ret" not in str(told.value)


def test_no_file(tmp_path: Path) -> None:
    """A file that is not there keeps the hub from starting, as does one that is no text."""
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_headers(str(tmp_path / "none"))
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="cannot be read: it is no text"):
        read_headers(str(tmp_path / "bytes"))


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    """It is refused: the end of it would be left out, or a secret be cut."""
    path = tmp_path / "headers"
    line = f"a: {'b' * 1_020}\n"
    path.write_text(line * 64)
    assert read_headers(str(path)) == {"a": "b" * 1_020}
    path.write_text(line * 64 + "c: d\n")
    with pytest.raises(ConfigError, match="has more than 65536 bytes"):
        read_headers(str(path))
