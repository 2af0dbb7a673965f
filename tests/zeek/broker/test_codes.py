"""Broker's codes: none is missing, and they are called what Broker calls them."""

from __future__ import annotations

from peers.zeek.broker.messages import BrokerCode


def test_codes_are_complete() -> None:
    """0 to 41, without a gap."""
    assert [int(code) for code in BrokerCode] == list(range(42))


def test_texts_are_brokers_names() -> None:
    """The text of a code is the name in Broker's source."""
    assert BrokerCode(39).text == "redundant_connection"
    assert BrokerCode(2).text == "peer_incompatible"
