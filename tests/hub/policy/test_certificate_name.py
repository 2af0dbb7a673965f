"""Whose certificate it is: what is compared, and that nothing is matched in part."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import InvalidNameError
from hub.policy.certificate_name import names_of, parse_certificate_name


def certificate(*subject: tuple[str, str], names: tuple[tuple[str, str], ...] = ()) -> dict[str, Any]:
    return {"subject": tuple((one,) for one in subject), "subjectAltName": names}


ALICE = certificate(
    ("countryName", "US"),
    ("organizationName", "Example, Inc."),
    ("commonName", "alice"),
    names=(("DNS", "Alice.Example.org"), ("URI", "spiffe://example.org/Alice"), ("email", "Alice@Example.org")),
)


def matches(text: str, shown: dict[str, Any]) -> bool:
    return parse_certificate_name(text) in [name for names in names_of(shown) for name in names]


@pytest.mark.parametrize(
    "text",
    [
        "CN=alice",
        "cn=alice",
        "commonName=alice",
        r"CN=alice,O=Example\, Inc.,C=US",
        r"CN = alice, O = Example\, Inc., C = US",
        r"CN=\61lice,O=Example\2c\20Inc.,C=US",
        r"CN=alice,organizationName=Example\, Inc.,countryName=US",
        "DNS:alice.example.org",
        "DNS:ALICE.example.ORG",
        "URI:spiffe://example.org/Alice",
        "email:Alice@example.ORG",
    ],
)
def test_what_is_meant(text: str) -> None:
    assert matches(text, ALICE)


@pytest.mark.parametrize(
    "text",
    [
        "CN=Alice",
        "CN=alic",
        "CN=alice2",
        r"CN=alice\20",
        r"CN=alice,O=Example\, Inc.",
        r"C=US,O=Example\, Inc.,CN=alice",
        r"CN=alice+O=Example\, Inc.,C=US",
        r"CN=alice,O=example\, inc.,C=US",
        "O=Example",
        "DNS:example.org",
        "DNS:*.example.org",
        "DNS:alice",
        "DNS:spiffe://example.org/Alice",
        "URI:alice.example.org",
        "URI:spiffe://example.org/alice",
        "email:alice@example.org",
        "CN=alice.example.org",
        "DNS:alice.example.org.",
    ],
)
def test_what_is_not_meant(text: str) -> None:
    assert not matches(text, ALICE)


def test_several_attributes_in_one_component() -> None:
    shown = {"subject": ((("commonName", "a"), ("userId", "7")), (("organizationName", "É"),))}
    assert matches("O=É,CN=a+UID=7", shown)
    assert matches(r"O=\C3\89,UID=7+CN=a", shown)
    assert not matches("O=É,CN=a,UID=7", shown)
    assert matches("CN=a", shown)


values = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
types = st.sampled_from(["commonName", "organizationName", "userId", "1.2.3", "emailAddress"])
subjects = st.lists(st.lists(st.tuples(types, values), min_size=1, max_size=2).map(tuple), min_size=1, max_size=3)


@given(subjects)
def test_a_subject_as_it_is_written(subject: list[tuple[tuple[str, str], ...]]) -> None:
    shown = {"subject": tuple(subject)}
    text = names_of(shown)[0][0].text
    assert matches(text, shown)
    assert parse_certificate_name(text).text == text


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.text('CN=,+\\ "DNS:20a', max_size=12))
def test_any_text(text: str) -> None:
    try:
        name = parse_certificate_name(text)
    except InvalidNameError:
        return
    assert parse_certificate_name(name.text) == name


def test_odd_certificates() -> None:
    assert names_of({})[1:] == ([], [])
    assert not matches("CN=alice", certificate(("commonName", "alice\x00.evil.example")))
    assert not matches("CN=alice", certificate(("organizationName", "CN=alice")))
    assert not matches("CN=alice", certificate(("commonName", "x,CN=alice")))
    assert not matches("CN=alice", certificate(names=(("DirName", "CN=alice"), ("IP Address", "CN=alice"))))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no name of a certificate"),
        ("alice", "no name of a certificate"),
        ("CN", "no name of a certificate"),
        ("=alice", "no name of a certificate"),
        ("CN=", "the value at character 3 is empty"),
        ("CN=  ", "is empty"),
        ("CN=a,", "no name of a certificate"),
        ("CN=a,,O=b", "no name of a certificate"),
        ("CN=a+", "no name of a certificate"),
        ("CN=a;O=b", r"needs a \ before it"),
        ('CN="a"', r"needs a \ before it"),
        ("CN=a\x00", r"needs a \ before it"),
        ("CN=a\\", r"needs a \ before it"),
        (r"CN=\ff", "not UTF-8"),
        ("DNS:", "no name of a certificate"),
        ("/C=US/CN=alice", "no name of a certificate"),
    ],
)
def test_mistakes(text: str, told: str) -> None:
    with pytest.raises(InvalidNameError) as refused:
        parse_certificate_name(text)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)
