"""How long whoever is not recognised waits to be told so."""

from __future__ import annotations

from peers.users.access import FIRST_S, LONGEST_S, Failures


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
