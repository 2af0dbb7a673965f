"""Certificates with names that could be taken for another's, over real sockets: who they are, and what is logged."""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtensionOID, NameOID

from hub.errors import CloseCode, RejectedError
from peers.client import connect
from peers.daemon.daemon import Daemon
from peers.users.access import Failures
from tests.daemon.conftest import StartDaemon
from tests.hubs.authority import Authority, Files

POLICY = r"""
[users]
alice = ["member"]
admin = ["admin"]
comma = ["member"]
whole = ["member"]
umlaut = ["member"]

[certificates]
"CN=alice" = "alice"
"DNS:alice.example.org" = "alice"
"email:alice@example.org" = "alice"
"CN=admin,O=Example" = "admin"
"CN=admin" = "admin"
"CN=a\\2C b\\3D c" = "comma"
"CN=whole,O=Example" = "whole"
"CN=müller" = "umlaut"
"""


class Issuer:
    def __init__(self, folder: Path) -> None:
        self._folder, self._number = folder, 0
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "careless")])
        self.ca = str(folder / "careless.pem")
        built = self._build(self._name, self._key).add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        Path(self.ca).write_bytes(built.sign(self._key, SHA256()).public_bytes(Encoding.PEM))

    def _build(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        day = dt.timedelta(days=1)
        builder = x509.CertificateBuilder(subject_name=subject, issuer_name=self._name, public_key=key.public_key())
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - day).not_valid_after(now + day)

    def issue(self, subject: list[tuple[x509.ObjectIdentifier, str]], names: bytes = b"") -> Files:
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(oid, value, _validate=False) for oid, value in subject]
        builder = self._build(x509.Name(attributes), key)
        if names:
            builder = builder.add_extension(
                x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, names), critical=False
            )
        self._number += 1
        stem = self._folder / f"odd{self._number}"
        files = Files(f"{stem}.pem", f"{stem}.key")
        Path(files.certificate).write_bytes(builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM))
        Path(files.key).write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return files


def alternative(tag: int, *names: bytes) -> bytes:
    entries = b"".join(bytes([tag]) + length(name) + name for name in names)
    return b"\x30" + length(entries) + entries


def length(content: bytes) -> bytes:
    if len(content) < 128:
        return bytes([len(content)])
    size = (len(content).bit_length() + 7) // 8
    return bytes([0x80 | size]) + len(content).to_bytes(size, "big")


CN, ORGANISATION = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME


class Odd(NamedTuple):
    subject: list[tuple[x509.ObjectIdentifier, str]]
    names: bytes = b""
    user: str = ""


CASES = {
    "as it should be": Odd([(CN, "alice")], user="alice"),
    "NUL": Odd([(CN, "alice\0.evil")]),
    "NUL at the end": Odd([(CN, "alice\0")]),
    "newline": Odd([(CN, "alice\n")]),
    "a line of a log": Odd([(CN, 'x"}\n{"event": "recognised", "user": "admin"}')]),
    "a terminal's escapes": Odd([(CN, "\x1b[2J\x1b[31malice\u202e\u2066")]),
    "space around": Odd([(CN, " alice ")]),
    "case": Odd([(CN, "Alice")]),
    "very long": Odd([(CN, "alice" * 2000)]),
    "fullwidth": Odd([(CN, "\uff41\uff4c\uff49\uff43\uff45")]),
    "zero width": Odd([(CN, "ali\u200bce")]),
    "non-ASCII": Odd([(CN, "müller")], user="umlaut"),
    "the same decomposed": Odd([(CN, "mu\u0308ller")]),
    "a whole subject in a name": Odd([(CN, "admin,O=Example")]),
    "a whole subject in another": Odd([(ORGANISATION, "Example,CN=admin")]),
    "two components in one": Odd([(ORGANISATION, "x+CN=alice")]),
    "a kind in a name": Odd([(CN, "CN=alice")]),
    "another kind in a name": Odd([(CN, "DNS:alice.example.org")]),
    "comma and equals": Odd([(CN, "a, b= c")], user="comma"),
    "escapes as they are written": Odd([(CN, "a\\2C b\\3D c")]),
    "the whole subject": Odd([(ORGANISATION, "Example"), (CN, "whole")], user="whole"),
    "the whole subject, turned": Odd([(CN, "whole"), (ORGANISATION, "Example")]),
    "two users": Odd([(CN, "alice"), (CN, "müller")]),
    "no name": Odd([]),
    "empty name": Odd([(CN, "")]),
    "host": Odd([(CN, "x")], alternative(0x82, b"ALICE.example.org"), "alice"),
    "host with NUL": Odd([(CN, "x")], alternative(0x82, b"alice.example.org\0.evil")),
    "host with a dot": Odd([(CN, "x")], alternative(0x82, b"alice.example.org.")),
    "hosts with a wildcard": Odd([(CN, "x")], alternative(0x82, b"*.example.org")),
    "host that is no text": Odd([(CN, "x")], alternative(0x82, b"\xff\xfe.example.org")),
    "mail that is no text": Odd([(CN, "x")], alternative(0x81, b"\xe4@example.org")),
    "URI that is no text": Odd([(CN, "x")], alternative(0x86, b"spiffe://\x80")),
    "one that is, beside one that is no text": Odd([(CN, "alice")], alternative(0x82, b"\xff", b"alice.example.org")),
    "mail with a newline": Odd([(CN, "x")], alternative(0x81, b"alice@example.org\n")),
    "another's account, the host in capitals": Odd([(CN, "x")], alternative(0x81, b"Alice@EXAMPLE.org")),
    "no alternative names at all": Odd([(CN, "x")], b"\x30\x00"),
    "an address of seven bytes": Odd([(CN, "x")], alternative(0x87, b"1234567")),
    "thousands of hosts": Odd([(CN, "x")], alternative(0x82, *(b"h%d.example.org" % n for n in range(3000)))),
}


class AtOnce(Failures):
    def note(self, address: str, now_s: float) -> float:
        super().note(address, now_s)
        return 0.0


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("issuer"))


@pytest.fixture
async def hub(start_daemon: StartDaemon, issuer: Issuer, tmp_path: Path) -> Daemon:
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    own = Authority(tmp_path).issue("localhost", "127.0.0.1")
    tls = {"certificate": own.certificate, "key": own.key, "ca": issuer.ca, "clients": "asked"}
    return await start_daemon("tls://127.0.0.1:0", "wss://127.0.0.1:0", tls=tls, access={"policy": str(policy)})


@pytest.mark.filterwarnings("ignore:Attribute's length")  # of whoever makes such certificates
@pytest.mark.parametrize("place", [0, 1], ids=["tls", "wss"])
async def test_whose_it_is(hub: Daemon, issuer: Issuer, tmp_path: Path, place: int) -> None:
    """Exactly the user's whose name it has, or nobody's; all of these are told the same, and logged in one line."""
    ca, url = str(tmp_path / "ca.pem"), hub.endpoints[place].location
    logged: list[str] = []
    hub.node.access.on_refused = lambda _, reason, text: logged.append(f"{reason.value}: {text}")
    hub.node.access.failures = AtOnce()
    users: dict[str, str] = {}
    told: set[tuple[int, str]] = set()

    async def show(name: str, files: Files) -> None:
        try:
            async with connect(url, ca=ca, certificate=files.certificate, key=files.key, name=name, reconnect=False):
                (handler,) = [one for one in hub.node.core.handlers.values() if one.name == name]
                assert handler.rights is not None
                users[name] = handler.rights.user.name
        except RejectedError as error:
            users[name] = ""
            told.add((error.code, error.text))

    await asyncio.gather(*(show(name, issuer.issue(odd.subject, odd.names)) for name, odd in CASES.items()))
    assert users == {name: odd.user for name, odd in CASES.items()}
    assert [(code, text.partition(": ")[2]) for code, text in told] == [
        (CloseCode.NOT_RECOGNISED, "not recognised: show a certificate or a token that this hub knows")
    ]
    assert len(logged) == sum(not user for user in users.values())
    assert all(line.isprintable() and line.isascii() and len(line) < 300 for line in logged)
    start = "certificate: a certificate that is not in [certificates]: "
    for shown in (
        r"'CN=alice\\00.evil'",
        r"'CN=alice\n'",
        r"'O=Example\\2CCN=admin'",
        "it says no name that can be read",
    ):
        assert start + shown in logged
    assert hub.node.failed_connections == 0
