"""What a hub must not ask Zeeks for, so that they can attach their data stores."""

from __future__ import annotations

import pytest

from hub.settings import ZeekSettings
from peers.broker.stores.topics import covers_stores

NAMES = ZeekSettings().stores


@pytest.mark.parametrize(
    "prefix",
    ["", "<", "<$>", "<$>/local/", "z", "zeek/", "zeek/known/", "zeek/known/hosts", "___", "db/<$>/data/master"],
)
def test_a_prefix_that_covers_a_store(prefix: str) -> None:
    """Wider than the name of a store, or within its topics."""
    assert covers_stores(prefix, NAMES)


@pytest.mark.parametrize("prefix", ["/", "/zeek/", "zeek/cluster/", "zeek/knows", "db", "$", "a<"])
def test_other_prefixes(prefix: str) -> None:
    """Are asked for, as long as no store of such a name is known."""
    assert not covers_stores(prefix, NAMES)


def test_stores_of_a_site() -> None:
    """A store with a name of its own is known by the settings."""
    assert covers_stores("d", ["db"])
    assert covers_stores("db", ["db"])
    assert not covers_stores("da", ["db"])
