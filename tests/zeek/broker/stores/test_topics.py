"""The topics of data stores, and what a hub must not ask Zeeks for, so that they can attach theirs."""

from __future__ import annotations

import pytest

from hub.settings.sections import ZeekSettings
from peers.zeek.broker.stores.command import (
    announces_master,
    clone_topic,
    covers_stores,
    is_store_topic,
    master_topic,
    store_of,
)

NAMES = ZeekSettings().stores


@pytest.mark.parametrize(
    "prefix",
    ["", "<", "<$>", "<$>/local/", "z", "zeek/", "zeek/known/", "zeek/known/hosts", "___", "db/<$>/data/master"],
)
def test_a_prefix_that_covers_a_store(prefix: str) -> None:
    assert covers_stores(prefix, NAMES)


@pytest.mark.parametrize("prefix", ["/", "/zeek/", "zeek/cluster/", "zeek/knows", "db", "$", "a<"])
def test_other_prefixes(prefix: str) -> None:
    assert not covers_stores(prefix, NAMES)


def test_stores_of_a_site() -> None:
    assert covers_stores("d", ["db"])
    assert covers_stores("db", ["db"])
    assert not covers_stores("da", ["db"])


def test_the_topics_of_a_store() -> None:
    assert (master_topic("db"), clone_topic("db")) == ("db/<$>/data/master", "db/<$>/data/clone")
    assert master_topic("zeek/known/") == "zeek/known/<$>/data/master"
    assert store_of("a/b/<$>/data/master") == ("a/b", True)
    assert store_of(clone_topic("db")) == ("db", False)
    assert store_of("db/<$>/data/other") is None
    assert is_store_topic(clone_topic("db"))
    assert not is_store_topic("db")


@pytest.mark.parametrize("prefix", ["", "d", "db", "db/<$>/data/master"])
def test_who_announces_a_master(prefix: str) -> None:
    assert announces_master([prefix, "x"], "db")
    assert not announces_master([clone_topic("db"), "dc"], "db")
