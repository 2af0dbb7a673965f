"""The file with the admin's token: made once, for nobody else's eyes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hub.errors import NotRecognisedError
from hub.settings.config import ConfigError
from hub.settings.sections import AccessSettings
from peers.users.access import Access, Proof
from peers.users.tokens import AdminToken, usual_place
from peers.users.users import read_users


def test_it_is_made_once(tmp_path: Path) -> None:
    place = tmp_path / "state" / "topichub" / "admin-token"
    file = AdminToken(str(place))
    old = os.umask(0)
    try:
        assert file.ensure() is True
    finally:
        os.umask(old)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    secret = file.secret()
    assert secret.startswith("hub_")
    assert place.read_text() == secret + "\n"
    assert file.ensure() is False
    assert file.secret() == secret


def test_who_shows_it_is_the_admin(tmp_path: Path) -> None:
    place = str(tmp_path / "admin-token")
    AdminToken(place).ensure()
    access = Access(read_users(AccessSettings(admin_token=place)), lambda: 0.0, lambda: 0.0)
    identity = access.recognise(Proof("198.51.100.7:1", AdminToken(place).secret()))
    assert (identity.user, identity.roles, identity.how) == ("admin", frozenset({"admin"}), "token")
    rights = access.rights(identity)
    assert rights is not None
    assert rights.is_admin
    for proof in (Proof("198.51.100.7:1"), Proof("127.0.0.1:1", is_local=True), Proof("198.51.100.7:1", "hub_x")):
        with pytest.raises(NotRecognisedError):
            access.recognise(proof)


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"HOME": "/home/me"}, "/home/me/.local/state/topichub/admin-token"),
        ({"HOME": "/home/me", "XDG_STATE_HOME": "/state"}, "/state/topichub/admin-token"),
        ({"HOME": "/home/me", "XDG_STATE_HOME": "state"}, "/home/me/.local/state/topichub/admin-token"),
        ({"HOME": "/home/me", "XDG_STATE_HOME": ""}, "/home/me/.local/state/topichub/admin-token"),
    ],
)
def test_where_it_is(variables: dict[str, str], place: str) -> None:
    assert usual_place(variables) == place


@pytest.mark.parametrize("content", ["", "hub_", "x" * 47, "hub_" + "x" * 43 + " y", "hub_" + "ä" * 43, "x" * 5000])
def test_what_is_no_token(tmp_path: Path, content: str) -> None:
    place = tmp_path / "admin-token"
    place.write_text(content)
    place.chmod(0o600)
    with pytest.raises(ConfigError, match="holds no token of a hub; remove it"):
        AdminToken(str(place)).secret()


def test_a_file_that_others_can_read(tmp_path: Path) -> None:
    place = tmp_path / "admin-token"
    AdminToken(str(place)).ensure()
    place.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        AdminToken(str(place)).secret()
