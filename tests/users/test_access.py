"""Who is recognised by what, in which order, and that what is wrong is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hub.config import ConfigError
from hub.errors import NotRecognisedError
from hub.settings import AccessSettings
from peers.users.access import Access
from peers.users.identity import Identity
from peers.users.proof import Proof
from peers.users.users import NOBODY, Users, read_users

ADDRESS = "192.0.2.7:50000"

POLICY = """
[roles.sensor]
publish = ["/zeek"]

[users]
alice = ["sensor"]
"""


def access_of(tmp_path: Path, policy: str = POLICY, anonymous: str = "") -> Access:
    """What a hub with this policy has."""
    file = tmp_path / "policy.toml"
    file.write_text(policy)
    return Access(read_users(AccessSettings(policy=str(file), anonymous=anonymous)))


def test_nothing_set() -> None:
    """Everybody may do everything, whatever he shows: as it was before there were users."""
    access = Access(read_users(AccessSettings()))
    assert access.is_open
    assert access.policy is None
    for proof, expected in (
        (Proof(ADDRESS), Identity("anonymous", frozenset(), "anonymous")),
        (Proof(ADDRESS, token="x"), Identity("anonymous", frozenset(), "anonymous")),
        (Proof("127.0.0.1:5", is_local=True), Identity("local", frozenset(), "local")),
    ):
        identity = access.recognise(proof)
        assert identity == expected
        assert access.rights(identity) is None
        assert access.is_current(identity)


def test_nobody_is_anonymous_unless_that_is_set(tmp_path: Path) -> None:
    """Who shows nothing is refused, or has the role that the settings name; on loopback, too."""
    for proof in (Proof(ADDRESS), Proof("127.0.0.1:5", is_local=True)):
        with pytest.raises(NotRecognisedError):
            access_of(tmp_path).recognise(proof)
        access = access_of(tmp_path, anonymous="reader")
        identity = access.recognise(proof)
        assert identity == Identity("anonymous", frozenset({"reader"}), "anonymous")
        rights = access.rights(identity)
        assert rights is not None
        assert rights.user == ("anonymous", {"reader"})


def test_the_hub_s_own_account_administers_it(tmp_path: Path) -> None:
    """Over a Unix socket, and so does root; another account is anybody."""
    access = access_of(tmp_path)
    for uid in (os.geteuid(), 0):
        identity = access.recognise(Proof("unix:/x", unix_uid=uid, is_local=True))
        assert (identity.user, identity.how) == ("local", "local")
        rights = access.rights(identity)
        assert rights is not None
        assert rights.is_admin
        assert access.is_current(identity)
    with pytest.raises(NotRecognisedError):
        access.recognise(Proof("unix:/x", unix_uid=4242, is_local=True))


def test_what_is_shown_and_wrong_is_refused(tmp_path: Path) -> None:
    """It is not passed over for what else would do."""
    access = access_of(tmp_path, anonymous="reader")
    with pytest.raises(NotRecognisedError):
        access.recognise(Proof("unix:/x", token="x", unix_uid=os.geteuid(), is_local=True))


def test_users_are_swapped(tmp_path: Path) -> None:
    """Who was recognised and would not be again is no longer current."""
    access = access_of(tmp_path, anonymous="reader")
    reader = access.recognise(Proof(ADDRESS))
    assert access.is_current(reader)
    access.adopt(access_of(tmp_path)._users)
    assert not access.is_current(reader)
    access.adopt(NOBODY)
    assert access.is_current(reader)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (AccessSettings(policy="/no/such/file"), "/no/such/file: there is no such file"),
        (AccessSettings(policy="/"), "/: cannot be read: Is a directory"),
        (
            AccessSettings(anonymous="raeder"),
            "access.anonymous: there is no role 'raeder' in the built-in policy; there are admin, member, reader",
        ),
    ],
)
def test_mistakes(settings: AccessSettings, told: str) -> None:
    """Each is one line."""
    with pytest.raises(ConfigError) as refused:
        read_users(settings)
    assert str(refused.value) == told


def test_secrets_are_not_shown() -> None:
    """A proof in a log or a traceback shows nothing that could be used."""
    assert "geheim" not in repr(Proof(ADDRESS, token="geheim"))
    assert Users().policy is None
