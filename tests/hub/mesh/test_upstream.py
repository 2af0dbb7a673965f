"""From which link the messages of an origin are taken."""

from __future__ import annotations

from hub.mesh.upstream import FAR_EPOCH, Upstreams
from hub.origin import EPOCH_LIMIT, Origin

A = b"a" * 16


def test_an_epoch_is_taken_from_the_link_that_brings_it_first() -> None:
    upstreams: Upstreams[str] = Upstreams()
    assert upstreams.accepts("one", A, 1)
    assert not upstreams.accepts("two", A, 1)
    assert upstreams.accepts("one", A, 1)


def test_nothing_older_is_taken_and_what_was_overtaken_is_lost() -> None:
    upstreams: Upstreams[str] = Upstreams()
    assert upstreams.accepts("one", A, 1)
    assert upstreams.accepts("two", A, 2)
    assert not upstreams.accepts("one", A, 1)
    assert upstreams.is_lost("one", A, 1)
    assert not upstreams.is_lost("three", A, 1)  # it may have come by another link


def test_what_was_overtaken_by_several_epochs_is_lost() -> None:
    upstreams = Upstreams[str]()
    for link, epoch in (("one", 1), ("two", 2), ("two", 3), ("one", 5), ("two", 6)):
        assert upstreams.accepts(link, A, epoch)
    lost = [(link, epoch) for epoch in range(1, 7) for link in ("one", "two") if upstreams.is_lost(link, A, epoch)]
    assert lost == [("one", 1), ("two", 2), ("two", 3), ("one", 5)]
    upstreams.leave("two")
    assert upstreams.is_lost("one", A, 1)
    assert not upstreams.is_lost("two", A, 3)
    for epoch in range(7, 17):
        assert upstreams.accepts("one", A, epoch)
    assert not upstreams.is_lost("one", A, 1)
    assert upstreams.is_lost("one", A, 8)


def test_an_epoch_of_which_the_upstream_has_gone_is_over() -> None:
    upstreams: Upstreams[str] = Upstreams()
    assert upstreams.accepts("one", A, 1)
    upstreams.leave("one")
    assert not upstreams.accepts("two", A, 1)
    assert upstreams.accepts("two", A, 2)
    assert not upstreams.is_lost("one", A, 1)


def test_another_link_to_the_same_hub_goes_on_where_the_first_one_ended() -> None:
    upstreams = Upstreams[str]()
    for link, far in (("one", b"far"), ("again", b"far"), ("other", b"else")):
        upstreams.come(link, far)
    assert upstreams.accepts("one", A, 1)
    assert not upstreams.accepts("again", A, 1)
    upstreams.leave("one")
    assert not upstreams.accepts("other", A, 1)
    turnover = upstreams.turnover
    assert upstreams.accepts("again", A, 1)
    assert upstreams.turnover > turnover
    assert upstreams.accepts("again", A, 1)
    assert not upstreams.accepts("other", A, 1)
    assert upstreams.moves("again") == 0


def test_origins_are_apart() -> None:
    upstreams: Upstreams[str] = Upstreams()
    assert upstreams.accepts("one", A, 5)
    assert upstreams.accepts("two", b"b" * 16, 1)
    upstreams.forget(A)
    assert upstreams.accepts("two", A, 1)


def test_moves_from_one_way_to_another_are_counted() -> None:
    upstreams: Upstreams[str] = Upstreams()
    for link in ("one", "two"):
        upstreams.come(link, link.encode())
    for epoch, link in enumerate(("one", "one", "two", "one"), 1):
        assert upstreams.accepts(link, A, epoch)
    assert (upstreams.moves("one"), upstreams.moves("two")) == (1, 1)
    upstreams.leave("one")
    assert upstreams.moves("one") == 0
    upstreams.come("one again", b"one")
    assert upstreams.accepts("one again", A, 5)
    assert upstreams.moves("one again") == 0
    assert upstreams.accepts("two", A, 6)
    assert upstreams.moves("two") == 2


def test_an_origin_that_is_linked_is_believed_over_others() -> None:
    upstreams = Upstreams[str]()
    for link, far in (("own", A), ("liar", b"far")):
        upstreams.come(link, far)
    assert not upstreams.accepts("liar", A, EPOCH_LIMIT, "own")
    assert upstreams.accepts("own", A, 5, "own")
    assert not upstreams.accepts("liar", A, FAR_EPOCH + 1, "own")
    assert upstreams.accepts("liar", A, 6, "own")
    assert not upstreams.accepts("own", A, 5, "own")
    assert upstreams.ahead(Origin(A, 5)) == Origin(A, 6)
    assert upstreams.ahead(Origin(A, 6)) is None
    assert upstreams.accepts("own", A, 7, "own")
    assert upstreams.ahead(Origin(A, 5)) is None


def test_what_others_said_before_an_origin_was_linked_is_forgotten() -> None:
    upstreams = Upstreams[str]()
    upstreams.come("liar", b"far")
    assert upstreams.accepts("liar", A, EPOCH_LIMIT)
    upstreams.come("own", A)
    assert not upstreams.accepts("liar", A, 5, "own")
    assert upstreams.accepts("own", A, 5, "own")
    assert not upstreams.accepts("liar", A, EPOCH_LIMIT, "own")
    assert upstreams.accepts("own", A, EPOCH_LIMIT, "own")
    assert not upstreams.accepts("own", A, 5, "own")
