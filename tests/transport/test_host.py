"""Whom an address counts for."""

from __future__ import annotations

import pytest

from peers.transport.endpoints import host_of


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("198.51.100.7:5000", "198.51.100.7"),
        ("[2001:db8:1:2:3:4:5:6]:5000", "2001:db8:1:2::"),
        ("[2001:db8:1:2::9]:5000", "2001:db8:1:2::"),
        ("[fe80::1%eth0]:5000", "fe80::"),
        ("[::ffff:198.51.100.7]:5000", "198.51.100.7"),
        ("127.0.0.1:5000", ""),
        ("[::1]:5000", ""),
        ("[::ffff:127.0.0.1]:5000", ""),
        ("unix:/run/hub.sock", ""),
        ("unix:", ""),
        ("", ""),
    ],
)
def test_what_an_address_counts_as(address: str, host: str) -> None:
    assert host_of(address) == host
