"""`CertificateName`: a name of a certificate, by which a policy maps it to a user.

```
"CN=alice,O=Example,C=US"        the whole subject, as RFC 4514 writes it: the most specific component first
"CN=alice"                       the common name, in any subject
"DNS:sensor-7.example.org"       a name among the certificate's subject alternative names, of this kind;
"URI:spiffe://example.org/s7"    or "email:alice@example.org"
```

Names match as a whole, without wildcards; only hosts and attribute types ignore case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hub.errors import InvalidNameError
from hub.topics import printable

_SUBJECT = "subject"
_COMMON_NAME = "CN"

# Short types of RFC 4514 for those that OpenSSL spells out. All others are as OpenSSL has them
_SHORT_TYPES = {
    "commonname": _COMMON_NAME,
    "surname": "SN",
    "countryname": "C",
    "localityname": "L",
    "stateorprovincename": "ST",
    "streetaddress": "STREET",
    "organizationname": "O",
    "organizationalunitname": "OU",
    "domaincomponent": "DC",
    "userid": "UID",
}

_ALTERNATIVE = re.compile("(DNS|URI|email):(.+)", re.DOTALL)
_ATTRIBUTE = re.compile(r" *([A-Za-z][A-Za-z0-9-]*|[0-9]+(?:\.[0-9]+)+) *= *")
_CHARACTER = re.compile(r"""\\((?:[0-9A-Fa-f]{2}\\)*[0-9A-Fa-f]{2}|[ "#+,;<=>\\])|([^"+,;<>\\\x00\ud800-\udfff])""")
_SPECIAL = re.compile(r"""["+,;<>\\\x00]""")
Attributes = tuple[tuple[str, str], ...]  # Sorted pairs of type and value in one component of a subject


class CertificateName(NamedTuple):
    """One name of a certificate."""

    kind: str  # `subject`, `CN`, or a kind of alternative name
    value: str | tuple[Attributes, ...]  # A text; of a whole subject its components, the most specific first

    @property
    def text(self) -> str:
        """The name as a policy writes it: `parse_certificate_name` reads it back."""
        if isinstance(self.value, str):
            return f"CN={_escaped(self.value)}" if self.kind == _COMMON_NAME else f"{self.kind}:{self.value}"
        return ",".join("+".join(f"{kind}={_escaped(value)}" for kind, value in component) for component in self.value)


def parse_certificate_name(text: str) -> CertificateName:
    """Read a name as a policy writes it; raises `InvalidNameError`, which says how to write one."""
    alternative = _ALTERNATIVE.fullmatch(text)
    if alternative is not None:
        return _alternative(alternative[1], alternative[2])
    components = tuple(_components(text))
    if len(components) == 1 and len(components[0]) == 1 and components[0][0][0] == _COMMON_NAME:
        return CertificateName(_COMMON_NAME, components[0][0][1])
    return CertificateName(_SUBJECT, components)


def names_of(certificate: Mapping[str, Any]) -> tuple[list[CertificateName], ...]:
    """Return the names of a certificate (as `ssl.SSLSocket.getpeercert` gives it): subject, alternative names, CN."""
    components = [
        tuple(sorted((_short(kind), value) for kind, value in component))
        for component in certificate.get("subject", ())
    ]
    subject = CertificateName(_SUBJECT, tuple(reversed(components)))
    others = [_alternative(*one) for one in certificate.get("subjectAltName", ()) if one[0] in {"DNS", "URI", "email"}]
    common = [CertificateName(_COMMON_NAME, value) for one in components for kind, value in one if kind == _COMMON_NAME]
    return [subject], others, common


def _escaped(value: str) -> str:
    quoted = _SPECIAL.sub(lambda found: "".join(f"\\{byte:02X}" for byte in found[0].encode()), value)
    bare = quoted.strip(" ")
    before = len(quoted) - len(quoted.lstrip(" "))
    return "\\20" * before + bare + "\\20" * (len(quoted) - before - len(bare)) if bare else "\\20" * len(quoted)


def _alternative(kind: str, value: str) -> CertificateName:
    if kind == "DNS":
        return CertificateName(kind, value.lower())
    if kind == "email":
        account, at, host = value.rpartition("@")
        return CertificateName(kind, account + at + host.lower())
    return CertificateName(kind, value)


def _short(kind: str) -> str:
    lower = kind.lower()
    return _SHORT_TYPES.get(lower, lower.upper())


def _components(text: str) -> Iterable[Attributes]:
    at, attributes = 0, list[tuple[str, str]]()
    while True:
        kind = _ATTRIBUTE.match(text, at)
        if kind is None:
            raise InvalidNameError(
                f"{printable(text)} is not a name of a certificate: write CN=..., a whole subject such as"
                " CN=alice,O=Example, or DNS:..., URI:..., email:..."
            )
        value, at = _value(text, kind.end())
        attributes.append((_short(kind[1]), value))
        separator = text[at : at + 1]
        at += 1
        if separator != "+":
            yield tuple(sorted(attributes))
            attributes = []
        if not separator:
            return


def _value(text: str, start: int) -> tuple[str, int]:
    found, at, kept = bytearray(), start, 0
    while (character := _CHARACTER.match(text, at)) is not None:
        escape, plain = character.groups()
        raw = bytes.fromhex(escape.replace("\\", "")) if escape and len(escape) > 1 else (escape or plain).encode()
        found += raw
        at = character.end()
        if escape or plain != " ":
            kept = len(found)  # spaces at the end belong to the value only where they are escaped
    if not kept or text[at : at + 1] not in {"", ",", "+"}:
        raise InvalidNameError(
            f"{printable(text)}: the value at character {start} is empty, or has a character that needs a \\ before it"
        )
    try:
        return found[:kept].decode(), at
    except UnicodeDecodeError as error:
        raise InvalidNameError(f"{printable(text)}: the value at character {start} is not UTF-8") from error
