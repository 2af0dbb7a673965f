"""Topics as a tree by their components."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hub.topic_tree import Others, TopicRates, first_of, found, nodes_under
from tests.hub.fakes import nasty_texts


def rates(**topics: float) -> list[TopicRates]:
    """Topics with their messages a second, ten bytes each."""
    return [TopicRates(topic, rate, 10 * rate, rate / 100, 1000 * rate) for topic, rate in topics.items()]


SOME = rates(**{"/zeek/dns/a": 5, "/zeek/dns/b": 3, "/zeek/conn": 1, "/zeek": 2, "plain": 7, "plain/x": 0.5})


def shown(under: str) -> list[tuple[str, bool, int, float]]:
    """Return what matters of the nodes under a prefix."""
    return [(node.prefix, node.is_topic, node.topics, node.messages_per_s) for node in nodes_under(under, SOME)]


def test_levels() -> None:
    """A node ends with a slash and has what is under it; the busiest is first; a topic is no node."""
    assert shown("") == [
        ("/zeek/", False, 3, 9),
        ("plain", True, 1, 7),
        ("/zeek", True, 1, 2),
        ("plain/", False, 1, 0.5),
    ]
    assert shown("/zeek/") == [("/zeek/dns/", False, 2, 8), ("/zeek/conn", True, 1, 1)]
    assert shown("/zeek/dns/") == [("/zeek/dns/a", True, 1, 5), ("/zeek/dns/b", True, 1, 3)]
    assert shown("/nothing/") == []


def test_sums() -> None:
    """Bytes, excess and messages are added up as rates are."""
    node = nodes_under("", SOME)[0]
    assert (node.bytes_per_s, node.excess_per_s, node.messages) == (90, 0.09, 9000)


def test_search() -> None:
    """Topics with the text anywhere in them, in whatever case."""
    assert [node.prefix for node in found("DNS/", SOME)] == ["/zeek/dns/a", "/zeek/dns/b"]
    assert all(node.is_topic for node in found("e", SOME))


def test_what_there_is_no_room_for_is_told_together() -> None:
    """The busiest stand for themselves."""
    nodes = nodes_under("", SOME)
    assert first_of(nodes, 4) == (nodes, None)
    assert first_of(nodes, 2) == (nodes[:2], Others(2, 2, 2.5, 25))


@given(topics=st.lists(nasty_texts.filter(bool), unique=True), under=nasty_texts)
def test_every_topic_is_under_exactly_one_node(topics: list[str], under: str) -> None:
    """Whatever slashes there are; each node begins with the prefix, and is longer unless it is a topic itself."""
    nodes = nodes_under(under, [TopicRates(topic, 1, 1, 0, 1) for topic in topics])
    for topic in topics:
        above = [node for node in nodes if (topic == node.prefix if node.is_topic else topic.startswith(node.prefix))]
        assert len(above) == (1 if topic.startswith(under) else 0) or any(node.is_topic for node in above)
    assert sum(node.topics for node in nodes) == sum(topic.startswith(under) for topic in topics)
    for node in nodes:
        assert node.prefix.startswith(under)
        assert node.is_topic or (node.prefix.endswith("/") and len(node.prefix) > len(under))
