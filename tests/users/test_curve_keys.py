"""CURVE keys in files: who may read them, and what they may look like."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from hub.policy.policy import ZEEK
from hub.settings.config import ConfigError
from hub.settings.sections import AccessSettings, ZeekSettings
from peers.users.access import Access
from peers.users.curve_keys import read_clients, read_public, read_secret, write_public, write_secret
from peers.users.identity import Identity
from peers.users.users import read_users
from peers.zeek.zmtp.z85 import encode_key

KEYS = [bytes((number,)) * 32 for number in (7, 255, 200)]


def test_a_pair_of_files(tmp_path: Path) -> None:
    secret, public = tmp_path / "a.key", tmp_path / "a.pub"
    write_secret(secret, KEYS[0])
    write_public(public, KEYS[1])
    assert (read_secret(str(secret)), read_public(str(public))) == (KEYS[0], KEYS[1])
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    for write, place in ((write_secret, secret), (write_public, public)):
        with pytest.raises(ConfigError, match="is there already"):
            write(place, KEYS[2])
        with pytest.raises(ConfigError, match="cannot be made: No such file or directory"):
            write(tmp_path / "none" / "a", KEYS[2])
    secret.chmod(0o640)
    with pytest.raises(ConfigError, match="others may read or write it") as refused:
        read_secret(str(secret))
    assert encode_key(KEYS[0]) not in str(refused.value)


def test_many_keys(tmp_path: Path) -> None:
    place = tmp_path / "clients"
    texts = [encode_key(key) for key in KEYS]
    place.write_text(f"# nodes\n\n  {texts[0]}  worker-1 \n{texts[1]}\tworker-2\n#\n{'#' * 40}\n{texts[2]}\n")
    settings = ZeekSettings(curve_key="x", curve_clients=str(place))
    assert read_clients(settings) == frozenset(KEYS)
    place.write_text("")
    assert read_clients(settings) == frozenset()
    assert read_clients(ZeekSettings(curve_clients="/no/such/file")) == frozenset()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x\n", "line 1 is no CURVE key in Z85: a key has 40 characters, this has 1"),
        (f"{encode_key(KEYS[0])}\n{'~' * 40}", "line 2 is no CURVE key in Z85: character 1 of a key is none of Z85"),
    ],
)
def test_lines_that_are_no_keys(tmp_path: Path, text: str, told: str) -> None:
    place = tmp_path / "clients"
    place.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_clients(ZeekSettings(curve_key="x", curve_clients=str(place)))
    assert str(refused.value) == f"{place}: {told}"


def test_files_that_hold_no_key_or_several(tmp_path: Path) -> None:
    place = tmp_path / "key"
    for text, count in (("# none\n", 0), (f"{encode_key(KEYS[0])}\n" * 2, 2)):
        place.write_text(text)
        place.chmod(0o600)  # of a secret one
        for read in (read_secret, read_public):
            with pytest.raises(ConfigError, match=f"holds {count} CURVE keys, and one is expected"):
                read(str(place))
    with pytest.raises(ConfigError, match="there is no such file"):
        read_secret(str(tmp_path / "none"))


def test_who_is_not_allowed_any_more_is_not_current(tmp_path: Path) -> None:
    place = tmp_path / "clients"
    place.write_text(encode_key(KEYS[0]))
    zeek = ZeekSettings(curve_key="x", curve_clients=str(place))
    access = Access(read_users(AccessSettings(), zeek), lambda: 0.0, lambda: 0.0)
    node = Identity(ZEEK, frozenset(), "curve", key=encode_key(KEYS[0]))
    assert access.is_open
    assert access.allows_curve_key(KEYS[0])
    assert access.is_current(node)
    place.write_text(encode_key(KEYS[1]))
    access.adopt(read_users(AccessSettings(), zeek))
    assert not access.is_current(node)
    with pytest.raises(ConfigError, match=r"zeek\.curve_clients: missing"):
        read_users(AccessSettings(), ZeekSettings(curve_key="x"))
    roles = AccessSettings(anonymous="member")
    held = Access(read_users(roles, ZeekSettings(curve_key="x", curve_clients=str(place), role="peer")), float, float)
    assert held.is_current(Identity(ZEEK, frozenset({"peer"}), "curve", key=encode_key(KEYS[1])))
    assert not held.is_current(Identity(ZEEK, frozenset({"peer"}), "curve", key=encode_key(KEYS[0])))
