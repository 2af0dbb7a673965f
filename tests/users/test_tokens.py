"""Tokens and CURVE keys: a text is one of a file's or it is not, and a file is right or it is refused."""

from __future__ import annotations

import errno
import json
import math
import os
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hub.policy.policy import ZEEK
from hub.settings.keys import ConfigError
from hub.settings.settings import AccessSettings, ZeekSettings
from peers.users import tokens as token_file
from peers.users.access import Access
from peers.users.files import read_clients, read_public, read_secret, write_public, write_secret
from peers.users.identity import Identity
from peers.users.tokens import TokenFile, hash_of, read_tokens
from peers.users.users import read_users
from peers.zeek.zmtp.z85 import encode_key

NOW = datetime(2026, 11, 22, 10, tzinfo=UTC)
SECRET = "hub_" + "aB3-" * 10 + "_xY"
LINE = {"sha256": hash_of(SECRET), "user": "alice", "created": "2026-11-22T10:00:00Z"}


def line(**changed: object) -> bytes:
    return json.dumps(LINE | changed).encode()


def test_a_token_is_found_by_its_whole_text_alone() -> None:
    """Another length, another case, white space, a NUL, the hash itself: none of them is the token."""
    tokens = read_tokens(line(), "tokens")
    found = tokens.find(SECRET)
    assert found is not None
    assert (found.user, found.until_s, found.id) == ("alice", math.inf, hash_of(SECRET)[:12])
    assert tokens.of_id(found.id) is found
    tricks = [
        *("", "hub_", SECRET[:-1], SECRET + "a", SECRET + "=", SECRET[4:], SECRET * 2, SECRET * 1000, "*"),
        *(SECRET.upper(), SECRET.lower(), SECRET.swapcase(), SECRET.replace("-", "+"), SECRET.replace("_", "/")),
        *(f" {SECRET}", f"{SECRET} ", f"{SECRET}\n", f"{SECRET}\x00", f"\x00{SECRET}", SECRET[:-1] + "Z"),
        SECRET.replace("B", "В"),  # noqa: RUF001 -- Cyrillic
        *("hub_" + "\ud800" * 10, hash_of(SECRET), found.id, "hub_" + hash_of(SECRET)),
    ]
    assert not any(tokens.find(trick) for trick in tricks)
    assert not any(tokens.find(SECRET[:cut]) for cut in range(len(SECRET)))


@pytest.mark.parametrize(
    ("told", "contents"),
    [
        ("line 1: no token", [b"x", b"[]", b"\xff", b"\x00", b"[" * 100_000, b'"' + SECRET.encode() + b'"']),
        ("line 1: no token", [line()[:-1], line() + line(), line(roles="admin"), line(ends=0), line(token=SECRET)]),
        ("line 1: no token", [line(sha256=one) for one in (SECRET, hash_of(SECRET).upper(), hash_of(SECRET)[:-1])]),
        ("line 1: no token", [line(created=one) for one in ("yesterday", "2026-11-22T10:00:00")]),
        ("line 1: no token", [line(label="x" * 65)]),
        ("line 3: no token", [b"# c\n\n" + line(user=7)]),
        ("no name of a user", [line(user="a/b"), line(user=""), line(roles=["a b"])]),
        ("a name that the hub gives itself", [line(user="local"), line(user="zeek")]),
        ("do not print", [line(label="a\x1b[2J")]),
        ("line 2: the same token as in line 1", [line() + b"\n" + line(user="bob")]),
    ],
)
def test_a_broken_file(told: str, contents: list[bytes]) -> None:
    for content in contents:
        with pytest.raises(ConfigError) as refused:
            read_tokens(content, "tokens")
        assert told in str(refused.value), content[:100]
        assert "\n" not in str(refused.value)
        assert SECRET not in str(refused.value)


def test_adding_and_revoking(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    file = TokenFile(str(path))
    first, token = file.add("alice", NOW, ends=NOW + timedelta(days=1), roles=("reader",), label="laptop")
    second, _ = file.add("bob", NOW)
    path.write_bytes(path.read_bytes() + b"# by hand")
    third, _ = file.add("bob", NOW)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not any(secret.encode() in path.read_bytes() for secret in (first, second, third))
    tokens = file.read()
    assert [tokens.find(secret) is not None for secret in (first, second, third)] == [True] * 3
    assert tokens.find(first) == token
    assert token.until_s == (NOW + timedelta(days=1)).timestamp()
    assert file.revoke(token.id) == token
    tokens = file.read()
    assert [tokens.find(secret) is not None for secret in (first, second, third)] == [False, True, True]
    assert b"# by hand" in path.read_bytes()
    with pytest.raises(ConfigError, match="there is no token"):
        file.revoke(token.id)
    assert [one.name for one in tmp_path.iterdir()] == ["tokens"]


def test_a_file_that_others_may_read_or_write(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(line() + b"\n")
    for mode in (0o644, 0o640, 0o620, 0o602, 0o610):
        path.chmod(mode)
        for act in (TokenFile(str(path)).read, lambda: TokenFile(str(path)).add("bob", NOW)):
            with pytest.raises(ConfigError, match=f"chmod 600 {path}"):
                act()
    assert path.read_bytes() == line() + b"\n"
    path.chmod(0o400)
    assert len(TokenFile(str(path)).read()) == 1


def test_several_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "tokens")
    threads = [threading.Thread(target=lambda: TokenFile(path).add("alice", NOW)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(TokenFile(path).read()) == 20
    assert os.listdir(tmp_path) == ["tokens"]  # noqa: PTH208


@pytest.mark.skipif(os.geteuid() != 0, reason="only root works on other accounts' files")
def test_a_file_of_another_account_stays_that_account_s(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.touch(0o600)
    os.chown(path, 4242, 4243)
    TokenFile(str(path)).add("alice", NOW)
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (4242, 4243, 0o600)


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokens"
    file = TokenFile(str(path))
    _, token = file.add("alice", NOW)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for act in (lambda: file.add("bob", NOW), lambda: file.revoke(token.id)):
        with pytest.raises(ConfigError, match="cannot be written: No space left on device"):
            act()
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["tokens"]


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


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_file, "_LARGEST_FILE_BYTES", 10)
    path = tmp_path / "tokens"
    path.touch(0o600)
    path.write_bytes(b"#" * 11)
    for act in (TokenFile(str(path)).read, lambda: TokenFile(str(path)).add("alice", NOW)):
        with pytest.raises(ConfigError, match="larger than 10 bytes, not a file of tokens"):
            act()
    assert path.read_bytes() == b"#" * 11
