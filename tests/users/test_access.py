"""Who is recognised by what, in which order; tokens, that of the admin, and CURVE keys; what is wrong is refused."""

from __future__ import annotations

import base64
import errno
import json
import math
import os
import ssl
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog

from hub.errors import NotRecognisedError
from hub.policy.policy import ZEEK
from hub.settings.keys import ConfigError
from hub.settings.settings import AccessSettings, ZeekSettings
from peers.users import tokens as token_file
from peers.users.access import FIRST_S, LONGEST_S, Access, Failures
from peers.users.files import read_clients, read_public, read_secret, write_public, write_secret
from peers.users.identity import Identity, Proof, Reason
from peers.users.tokens import AdminToken, TokenFile, hash_of, read_tokens, usual_place
from peers.users.users import NOBODY, Users, read_users
from peers.zeek.zmtp.z85 import encode_key
from tests.users.keys import jwk, jwks, token

ADDRESS = "192.0.2.7:50000"
NOW = datetime(2026, 11, 22, 10, tzinfo=UTC)
NOW_S = NOW.timestamp()
ENDS = NOW + timedelta(days=1)
NOT_AFTER = "Nov 23 10:00:00 2026 GMT"
CLAIMS = {"iss": "i", "aud": "hub", "exp": ENDS.timestamp()}
POLICY = """
[roles.sensor]
publish = ["/zeek"]

[users]
alice = ["sensor"]
bob = []
dora = ["reader"]

[certificates]
"CN=alice,O=Example" = "alice"
"CN=bob" = "bob"
"DNS:dora.example.org" = "dora"
"URI:urn:dora" = "dora"
"email:bob@example.org" = "bob"

[unix]
4242 = "alice"
"""


class Place:
    def __init__(self, folder: Path) -> None:
        self.policy = folder / "policy.toml"
        self.policy.write_text(POLICY)
        self.tokens = TokenFile(str(folder / "tokens"))
        self.token, self.entry = self.tokens.add("alice", NOW, ends=ENDS)
        self.settings = AccessSettings(
            policy=str(self.policy),
            tokens=str(folder / "tokens"),
            jwt_keys=jwks(folder / "jwks.json", jwk("HS256")),
            jwt_issuer="i",
            jwt_audience="hub",
        )
        self.now_s = 5.0
        self.wall_s = NOW_S

    def access(self, anonymous: str = "") -> Access:
        return Access(self.users(anonymous), lambda: self.now_s, lambda: self.wall_s)

    def users(self, anonymous: str = "") -> Users:
        return read_users(AccessSettings(**(structs(self.settings) | {"anonymous": anonymous})))


def structs(settings: AccessSettings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__struct_fields__}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def certificate(*subject: tuple[str, str], names: tuple[tuple[str, str], ...] = ()) -> dict[str, Any]:
    return {"subject": tuple((one,) for one in subject), "subjectAltName": names, "notAfter": NOT_AFTER}


ALICES = certificate(("organizationName", "Example"), ("commonName", "alice"))
STRANGERS = certificate(("commonName", "stranger"))


def refused(access: Access, proof: Proof) -> Reason:
    before = access.refused.copy()
    with structlog.testing.capture_logs() as logs, pytest.raises(NotRecognisedError) as caught:
        access.recognise(proof)
    assert str(caught.value) == str(NotRecognisedError())
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    (line,) = logs
    assert line["address"] == proof.address
    assert len(proof.token) < 10 or proof.token not in str(logs)
    ((reason, count),) = (access.refused - before).items()
    assert count == 1
    return reason


def test_nothing_set() -> None:
    access = Access(read_users(AccessSettings()), lambda: 0.0, lambda: NOW_S)
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


def test_nobody_is_anonymous_unless_that_is_set(place: Place) -> None:
    for proof in (Proof(ADDRESS), Proof("127.0.0.1:5", is_local=True), Proof("unix:", unix_uid=4711)):
        assert refused(place.access(), proof) is Reason.NOTHING
        access = place.access("reader")
        identity = access.recognise(proof)
        assert identity == Identity("anonymous", frozenset({"reader"}), "anonymous")
        rights = access.rights(identity)
        assert rights is not None
        assert rights.user == ("anonymous", {"reader"})


def test_accounts(place: Place) -> None:
    access = place.access()
    for uid in (os.geteuid(), 0):
        identity = access.recognise(Proof("unix:/x", unix_uid=uid, is_local=True))
        assert (identity.user, identity.how) == ("local", "local")
        rights = access.rights(identity)
        assert rights is not None
        assert rights.is_admin
        assert access.is_current(identity)
    assert access.recognise(Proof("unix:/x", unix_uid=4242)) == Identity("alice", frozenset(), "unix", key="4242")
    place.policy.write_text(POLICY + f'{os.geteuid()} = "bob"\n')
    identity = place.access().recognise(Proof("unix:/x", unix_uid=os.geteuid()))
    assert (identity.user, identity.how) == ("bob", "unix")


def test_tokens(place: Place) -> None:
    access = place.access()
    identity = access.recognise(Proof(ADDRESS, token=place.token))
    assert identity == Identity("alice", frozenset(), "token", ENDS.timestamp(), place.entry.id)
    rights = access.rights(identity)
    assert rights is not None
    assert rights.user == ("alice", {"sensor"})
    assert access.recognised == {"token": 1}
    assert place.token not in repr(Proof(ADDRESS, token=place.token))
    place.wall_s = ENDS.timestamp() - 0.001
    assert access.recognise(Proof(ADDRESS, token=place.token)) == identity
    place.wall_s = ENDS.timestamp()
    assert refused(access, Proof(ADDRESS, token=place.token)) is Reason.ENDED
    assert not access.is_current(identity)


def test_roles_of_a_token(place: Place) -> None:
    with_role, _ = place.tokens.add("eve", NOW, roles=("admin", "unknown"))
    without, _ = place.tokens.add("eve", NOW)
    senseless, _ = place.tokens.add("eve", NOW, roles=("unknown",))
    access = place.access()
    rights = access.rights(access.recognise(Proof(ADDRESS, token=with_role)))
    assert rights is not None
    assert rights.user == ("eve", {"admin"})
    for secret in (without, senseless):
        assert refused(access, Proof(ADDRESS, token=secret)) is Reason.USER


def test_jwts(place: Place) -> None:
    access = place.access()
    identity = access.recognise(Proof(ADDRESS, token=token(CLAIMS | {"sub": "eve", "roles": ["reader"]})))
    assert (identity.user, identity.roles, identity.how) == ("eve", {"reader"}, "jwt")
    assert access.is_current(identity)
    assert access.recognise(Proof(ADDRESS, token=token(CLAIMS | {"sub": "alice"}))).user == "alice"
    assert refused(access, Proof(ADDRESS, token=token(CLAIMS | {"sub": "eve"}))) is Reason.USER
    assert refused(access, Proof(ADDRESS, token=token(CLAIMS | {"sub": "alice", "exp": 1}))) is Reason.ENDED
    assert refused(access, Proof(ADDRESS, token=token(CLAIMS | {"sub": "local"}))) is Reason.JWT
    assert refused(access, Proof(ADDRESS, token="hub_" + token(CLAIMS | {"sub": "alice"}))) is Reason.TOKEN
    place.settings = AccessSettings(policy=str(place.policy))
    assert refused(place.access(), Proof(ADDRESS, token=token(CLAIMS | {"sub": "alice"}))) is Reason.TOKEN


@pytest.mark.parametrize(
    ("shown", "user"),
    [
        (ALICES, "alice"),
        (certificate(("commonName", "bob"), ("organizationName", "Anything")), "bob"),
        (certificate(("commonName", "x"), names=(("DNS", "y.example.org"), ("DNS", "dora.example.org"))), "dora"),
        (certificate(names=(("URI", "urn:dora"), ("DNS", "dora.example.org"))), "dora"),
        # The subject counts before other names, these before the common name.
        (ALICES | {"subjectAltName": (("DNS", "dora.example.org"),)}, "alice"),
        (certificate(("commonName", "bob"), names=(("DNS", "dora.example.org"),)), "dora"),
    ],
)
def test_certificates(shown: dict[str, Any], user: str, place: Place) -> None:
    access = place.access()
    until_s = ssl.cert_time_to_seconds(NOT_AFTER)
    identity = access.recognise(Proof(ADDRESS, certificate=shown))
    assert identity == Identity(user, frozenset(), "certificate", until_s, identity.key)
    assert access.is_current(identity)
    place.wall_s = until_s
    assert refused(access, Proof(ADDRESS, certificate=shown)) is Reason.ENDED


def test_certificates_of_nobody(place: Place) -> None:
    access = place.access("reader")
    both = certificate(names=(("DNS", "dora.example.org"), ("email", "bob@example.org")))
    for shown in (STRANGERS, both, certificate(), certificate(("commonName", "Bob"))):
        assert refused(access, Proof("unix:", certificate=shown, unix_uid=0)) is Reason.CERTIFICATE
    assert access.recognise(Proof(ADDRESS, certificate={})).how == "anonymous"
    place.policy.write_text("[users]")
    assert place.access("reader").recognise(Proof(ADDRESS, certificate=STRANGERS)).how == "anonymous"


def test_a_certificate_and_a_token(place: Place) -> None:
    access = place.access()
    bob = certificate(("commonName", "bob"))
    assert access.recognise(Proof(ADDRESS, place.token, bob)).user == "bob"
    assert access.recognise(Proof(ADDRESS, place.token, STRANGERS)).user == "alice"
    assert refused(access, Proof(ADDRESS, "hub_x", bob)) is Reason.TOKEN
    assert refused(access, Proof(ADDRESS, "a.b.c", bob)) is Reason.JWT


def test_what_is_shown_and_wrong_is_refused(place: Place) -> None:
    access = place.access("reader")
    for shown in ("x", "hub_", place.token[:-1], place.token.upper(), f"{place.token}\x00", " "):
        assert refused(access, Proof("unix:/x", shown, unix_uid=os.geteuid(), is_local=True)) in {
            Reason.TOKEN,
            Reason.JWT,
        }


def test_failures_are_held_back(place: Place) -> None:
    access = place.access()
    delays = []
    for _ in range(3):
        with pytest.raises(NotRecognisedError) as caught:
            access.recognise(Proof(ADDRESS, token="hub_x"))
        delays.append(caught.value.delay_s)
    assert delays == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S]
    assert access.recognise(Proof(ADDRESS, token=place.token)).user == "alice"
    assert access.failures.addresses == 1


def test_how_long_it_took_is_hidden(place: Place) -> None:
    ticks = iter([5.0, 5.03, 6.0, 9.0])
    access = Access(place.users(), lambda: next(ticks), lambda: NOW_S)
    for expected in (FIRST_S - 0.03, 0.0):
        with pytest.raises(NotRecognisedError) as caught:
            access.recognise(Proof(ADDRESS))
        assert math.isclose(caught.value.delay_s, expected, abs_tol=1e-9)


def test_who_is_gone(place: Place) -> None:
    secret, entry = place.tokens.add("eve", NOW, roles=("reader",))
    access = place.access("reader")
    proofs = {
        "alice": Proof(ADDRESS, place.token),
        "eve": Proof(ADDRESS, secret),
        "certificate": Proof(ADDRESS, certificate=ALICES),
        "jwt": Proof(ADDRESS, token(CLAIMS | {"sub": "dora"})),
        "unix": Proof("unix:", unix_uid=4242),
        "local": Proof("unix:", unix_uid=0),
        "anonymous": Proof(ADDRESS),
    }
    who = {name: access.recognise(proof) for name, proof in proofs.items()}

    def gone() -> set[str]:
        return {name for name, identity in who.items() if not access.is_current(identity)}

    access.adopt(place.users("reader"))
    assert gone() == set()
    place.tokens.revoke(entry.id)
    access.adopt(place.users("member"))
    assert gone() == {"eve", "anonymous"}
    place.policy.write_text("[users]\nalice = []\ndora = []\n")
    access.adopt(place.users("reader"))
    assert gone() == {"eve", "certificate", "unix"}
    other = base64.urlsafe_b64encode(b"another secret, of the same name").decode()
    jwks(Path(place.settings.jwt_keys), jwk("HS256", k=other.rstrip("=")))
    place.policy.write_text("[users]\ndora = []\n")
    access.adopt(place.users("reader"))
    assert gone() == {"alice", "eve", "certificate", "unix", "jwt"}
    access.adopt(NOBODY)
    assert gone() == set()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (AccessSettings(policy="/no/such/file"), "/no/such/file: there is no such file"),
        (AccessSettings(policy="/"), "/: cannot be read: Is a directory"),
        (AccessSettings(tokens="/no/such/file"), "there is no such file; `hub token new USER` makes it"),
        (AccessSettings(jwt_keys="/no/such/file"), "access.jwt_issuer: empty"),
        (AccessSettings(jwt_keys="/no/such/file", jwt_issuer="i"), "access.jwt_audience: empty"),
        (
            AccessSettings(jwt_keys="/no/such/file", jwt_issuer="i", jwt_audience="a", jwt_user=""),
            "access.jwt_user: empty",
        ),
        (AccessSettings(jwt_keys="/no/such/file", jwt_issuer="i", jwt_audience="a"), "/no/such/file: there is no"),
        (
            AccessSettings(anonymous="raeder"),
            "access.anonymous: there is no role 'raeder' in the built-in policy; there are admin, member, peer, reader",
        ),
    ],
)
def test_mistakes(settings: AccessSettings, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_users(settings)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[certificates]\n'alice' = 'alice'", "certificates.alice: 'alice' is not a name of a certificate"),
        ("[certificates]\n'CN=x' = 'mallory'", "certificates.CN=x: there is no user 'mallory' in [users]"),
        ("[certificates]\n'CN=x' = 7", "certificates.CN=x: a int given, expected the name of a user"),
        ("[certificates]\n'CN=x' = 'alice'\n'cn=x' = 'alice'", "certificates.cn=x: the same certificates are"),
        ("certificates = 7", "certificates: a int given, expected a table"),
        ("[unix]\n4242 = 'mallory'", "unix.4242: there is no user 'mallory' in [users]"),
        ("[unix]\nno-such-account = 'alice'", "unix.no-such-account: there is no such account here"),
        ("[unix]\n'' = 'alice'", "unix.: there is no such account here"),
        ("[unix]\n99999999999 = 'alice'", "unix.99999999999: there is no such account here"),
        ("[unix]\n'-1' = 'alice'", "unix.-1: there is no such account here"),
        ('[unix]\n"a\\u0000" = "alice"', "there is no such account here"),
        ("[unix]\n0 = 'alice'\nroot = 'bob'", "unix.root: account 0 is that of another user above"),
        ("[unix]\n0 = ['alice']", "unix.0: a list given, expected the name of a user"),
    ],
)
def test_mistakes_in_the_tables(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(f"{text}\n[users]\nalice = []\nbob = []\n")
    with pytest.raises(ConfigError) as refused:
        read_users(AccessSettings(policy=str(file)))
    assert str(refused.value).startswith(f"{file}: ")
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_role_of_zeeks_must_be_there(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text("[roles.zeeks]\nlink = { bring = ['/zeek'] }\n")
    settings = AccessSettings(policy=str(file))
    for role in ("", "zeeks", "peer"):
        assert read_users(settings, ZeekSettings(role=role)).policy is not None
    with pytest.raises(ConfigError, match=r"zeek\.role: there is no role 'zeek' in .*; there are admin, "):
        read_users(settings, ZeekSettings(role="zeek"))
    assert read_users(AccessSettings(), ZeekSettings(role="zeek")) == NOBODY


def test_addresses_are_apart() -> None:
    failures = Failures()
    assert failures.note("192.0.2.1:5", 0.0) == failures.note("192.0.2.2:5", 0.0) == FIRST_S
    assert failures.note("[2001:db8::1]:5", 0.0) == FIRST_S
    assert failures.note("[2001:db8::2]:5", 0.0) == 2 * FIRST_S
    assert failures.note("127.0.0.1:5", 0.0) == FIRST_S
    assert failures.note("unix:/run/hub.sock", 0.0) == 2 * FIRST_S
    assert failures.addresses == 4


def test_the_table_is_bounded() -> None:
    failures = Failures(limit=3)
    for number in range(100):
        failures.note("192.0.2.1:5", 0.0)
        failures.note(f"198.51.100.{number}:5", 0.0)
        assert failures.addresses <= 3
    assert failures.note("192.0.2.1:5", 0.0) == LONGEST_S
    assert failures.note("198.51.100.0:5", 0.0) == FIRST_S


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
    place.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        file.secret()


def test_where_it_is() -> None:
    home = "/home/me/.local/state/topichub/admin-token"
    for state, place in (({}, home), ({"XDG_STATE_HOME": "/state"}, "/state/topichub/admin-token")):
        assert usual_place({"HOME": "/home/me"} | state) == place
    for none in ("state", ""):
        assert usual_place({"HOME": "/home/me", "XDG_STATE_HOME": none}) == home


@pytest.mark.parametrize("content", ["", "hub_", "x" * 47, "hub_" + "x" * 43 + " y", "hub_" + "ä" * 43, "x" * 5000])
def test_what_is_no_token(tmp_path: Path, content: str) -> None:
    place = tmp_path / "admin-token"
    place.write_text(content)
    place.chmod(0o600)
    with pytest.raises(ConfigError, match="holds no token of a hub; remove it"):
        AdminToken(str(place)).secret()


TOKEN = "hub_" + "aB3-" * 10 + "_xY"
ENTRY = {"sha256": hash_of(TOKEN), "user": "alice", "created": "2026-11-22T10:00:00Z"}


def line(**changed: object) -> bytes:
    return json.dumps(ENTRY | changed).encode()


def test_a_token_is_found_by_its_whole_text_alone() -> None:
    """Another length, another case, white space, a NUL, the hash itself: none of them is the token."""
    tokens = read_tokens(line(), "tokens")
    found = tokens.find(TOKEN)
    assert found is not None
    assert (found.user, found.until_s, found.id) == ("alice", math.inf, hash_of(TOKEN)[:12])
    assert tokens.of_id(found.id) is found
    tricks = [
        *("", "hub_", TOKEN[:-1], TOKEN + "a", TOKEN + "=", TOKEN[4:], TOKEN * 2, TOKEN * 1000, "*"),
        *(TOKEN.upper(), TOKEN.lower(), TOKEN.swapcase(), TOKEN.replace("-", "+"), TOKEN.replace("_", "/")),
        *(f" {TOKEN}", f"{TOKEN} ", f"{TOKEN}\n", f"{TOKEN}\x00", f"\x00{TOKEN}", TOKEN[:-1] + "Z"),
        TOKEN.replace("B", "В"),  # noqa: RUF001 -- Cyrillic
        *("hub_" + "\ud800" * 10, hash_of(TOKEN), found.id, "hub_" + hash_of(TOKEN)),
    ]
    assert not any(tokens.find(trick) for trick in tricks)
    assert not any(tokens.find(TOKEN[:cut]) for cut in range(len(TOKEN)))


@pytest.mark.parametrize(
    ("told", "contents"),
    [
        ("line 1: no token", [b"x", b"[]", b"\xff", b"\x00", b"[" * 100_000, b'"' + TOKEN.encode() + b'"']),
        ("line 1: no token", [line()[:-1], line() + line(), line(roles="admin"), line(ends=0), line(token=TOKEN)]),
        ("line 1: no token", [line(sha256=one) for one in (TOKEN, hash_of(TOKEN).upper(), hash_of(TOKEN)[:-1])]),
        ("line 1: no token", [line(created=one) for one in ("yesterday", "2026-11-22T10:00:00")]),
        ("line 1: no token", [line(label="x" * 65)]),
        ("line 3: no token", [b"# c\n\n" + line(user=7)]),
        ("not a valid name of a user", [line(user="a/b"), line(user=""), line(roles=["a b"])]),
        ("a reserved name", [line(user="local"), line(user="zeek")]),
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
        assert TOKEN not in str(refused.value)


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
        with pytest.raises(ConfigError, match="exists, and"):
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
        ("x\n", "line 1 is not a CURVE key in Z85: a key has 40 characters, this has 1"),
        (f"{encode_key(KEYS[0])}\n{'~' * 40}", "line 2 is not a CURVE key in Z85: character 1 of a key is not in Z85"),
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
