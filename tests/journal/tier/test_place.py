"""Where a tier stands: a folder and a bucket obey one law, and what goes wrong is told in one line."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from hub.errors import UsageError
from peers.journal.tier.place import (
    HASTY,
    AbsentError,
    Patience,
    Place,
    TierUnavailableError,
    check_address,
    check_installed,
    place_at,
)
from tests.journal.tier.made import bucket


def test_files_come_and_go(place: Place) -> None:
    assert place.sizes("a/b") == {}
    assert place.folders() == []
    place.write("a/b/one", b"first")
    place.write("a/b/two", memoryview(b"xxsecondxx")[2:8])
    place.write("a/b/one", b"again!")
    assert place.sizes("a/b") == {"one": 6, "two": 6}
    assert place.read("a/b/one") == b"again!"
    assert place.read("a/b/two") == b"second"
    with place.open("a/b/two") as file:
        file.seek(3)
        assert file.read(2) == b"on"
        assert file.size() == 6
    assert place.folders() == ["a"]
    place.delete("a/b/one")
    place.delete("a/b/one")
    assert place.sizes("a/b") == {"two": 6}


def test_a_file_that_is_not_there(place: Place) -> None:
    place.write("a/one", b"1")
    with pytest.raises(AbsentError):
        place.read("a/two")
    with pytest.raises(AbsentError):
        place.open("a/two")


def test_a_large_file(place: Place) -> None:
    data = os.urandom(12_000_000)
    place.write("a/large", data)
    assert place.read("a/large") == data


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    place = place_at(str(tmp_path / "away"))
    for act in (lambda: place.write("a/b", b""), lambda: place.sizes("a"), place.folders):
        with pytest.raises(TierUnavailableError, match="make it, or mount it"):
            act()
    assert not (tmp_path / "away").exists()


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = place_at(str(tmp_path))
    place.write("a/one", b"1")

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("peers.journal.tier.place.os.fsync", fail)
        with pytest.raises(TierUnavailableError, match="No space left"):
            place.write("a/two", b"2")
    assert place.sizes("a") == {"one": 1}


def test_a_server_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    with bucket(monkeypatch) as served:
        place = place_at(served.address, HASTY)
    with pytest.raises(TierUnavailableError) as caught:
        place.sizes("a")
    assert "\n" not in str(caught.value)


def test_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"s3://bucket/x?region=eu&endpoint=http://127.0.0.1:{silent.getsockname()[1]}"
        place = place_at(address, Patience(connect_s=0.3, request_s=0.3, attempts=1))
        with pytest.raises(TierUnavailableError):
            place.read("a")


def test_a_bucket_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with bucket(monkeypatch) as served:
        place = place_at(served.address.replace(served.name, "other"))
        with pytest.raises(TierUnavailableError, match="other"):
            place.write("a/one", b"1")


@pytest.mark.parametrize(
    "address", ["/mnt/x", "x", "s3://bucket", "s3://bucket/a?region=eu", "s3://b?endpoint=http://h:1"]
)
def test_addresses(address: str) -> None:
    check_address(address)


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("gs://bucket/x", "a folder or s3://"),
        ("s3:///x", "a folder or s3://"),
        ("s3://key:secret@bucket/x", "keys do not belong"),
        ("s3://bucket/x?regoin=eu", "regoin is not known"),
        ("s3://bucket/x?endpoint=host:1", "an endpoint is"),
    ],
)
def test_addresses_that_are_none(address: str, text: str) -> None:
    with pytest.raises(UsageError, match=text) as caught:
        check_address(address)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("module", "package"), [("pyarrow.parquet", "pyarrow"), ("numpy", "numpy")])
def test_what_a_tier_needs_is_missing(monkeypatch: pytest.MonkeyPatch, module: str, package: str) -> None:
    check_installed()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=rf"a tier needs {package}, .* pip install 'topichub\[tier\]'"):
        check_installed()
