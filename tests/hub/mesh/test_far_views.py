"""What the far sides of links know of the mesh, as they have told and confirmed."""

from __future__ import annotations

from collections.abc import Mapping

from hub.mesh.far_views import FarViews

A, B, C = (bytes([number]) * 16 for number in range(3))
OLD, NEW, NEWER = {B: 1}, {B: 1, C: 1}, {C: 2}


def known(views: FarViews[str], link: str) -> Mapping[bytes, Mapping[bytes, int]]:
    """What a far side knows otherwise than it is known here."""
    number = views.number(link)
    if not number:
        return {}
    view = views.view(number)
    assert view is not None
    return view.neighbours


def start() -> FarViews[str]:
    """A link whose far side knows all that is known: of A, what it told first."""
    views = FarViews[str]()
    views.change(A, 3, OLD)
    views.add("link", B, [(A, 3)])
    views.confirm("link", views.generation)
    assert known(views, "link") == {}
    return views


def test_a_far_side_knows_a_change_when_it_has_confirmed_it() -> None:
    """Until then it goes by what was before, of several changes by what was when it confirmed last."""
    views = start()
    assert views.change(A, 4, NEW)
    number = views.number("link")
    view = views.view(number)
    assert view is not None
    assert view == (B, {A: OLD})
    first = views.generation
    assert views.change(A, 5, NEWER)
    assert views.number("link") != number
    assert views.view(number) is None
    assert known(views, "link") == {A: OLD}
    assert not views.has_confirmed("link")
    assert views.confirm("link", first)
    assert known(views, "link") == {A: NEW}
    assert not views.confirm("link", first)
    assert not views.confirm("link", views.generation + 1)
    assert views.confirm("link", views.generation)
    assert views.has_confirmed("link")
    assert known(views, "link") == {}


def test_the_same_links_once_more_are_no_change() -> None:
    """Nobody is asked whether he knows that."""
    views = start()
    assert not views.change(A, 4, dict(OLD))
    assert views.has_confirmed("link")


def test_a_far_side_knows_what_it_tells() -> None:
    """It need not confirm that."""
    views = start()
    views.change(A, 4, NEW)
    views.hear("link", A, 4, NEW)
    assert known(views, "link") == {}
    views.change(A, 5, NEWER)
    assert known(views, "link") == {A: NEW}


def test_a_far_side_tells_what_was_never_known_here() -> None:
    """Two announcements came here as one; it has heard of the first of them, and then of the other."""
    views = start()
    views.change(A, 6, NEWER)
    views.hear("link", A, 4, NEW)
    assert known(views, "link") == {A: NEW}
    views.hear("link", A, 5, None)  # what is wanted there has changed
    assert known(views, "link") == {A: NEW}
    views.confirm("link", views.generation)
    assert known(views, "link") == {}


def test_a_far_side_tells_what_was_passed_over_here() -> None:
    """Of two announcements the first has come there, and only the other one here: it says what was known before."""
    views = start()
    views.add("other", C, [(A, 3)])
    views.confirm("other", views.generation)
    assert not views.change(A, 5, OLD)
    assert views.hear("link", A, 4, NEW)
    assert known(views, "link") == {A: NEW}
    assert known(views, "other") == {A: OLD}  # as it is known here
    assert not views.has_confirmed("link")
    assert views.confirm("link", views.generation)
    assert known(views, "link") == {}
    assert not views.hear("link", A, 5, OLD)


def test_a_new_link_tells_what_its_far_side_knows() -> None:
    """Of what has changed lately, by the number."""
    views = start()
    views.change(A, 4, NEW)
    views.change(A, 6, NEWER)
    for seq, neighbours in ((3, OLD), (4, NEW), (5, NEW)):
        views.add("other", C, [(A, seq)])
        assert known(views, "other") == {A: neighbours}
    views.add("other", C, [(A, 6)])
    assert known(views, "other") == {}
    views.discard("other")
    assert known(views, "other") == {}


def test_what_all_have_confirmed_is_let_go_of_when_nothing_changes_any_more() -> None:
    """Of what one has not confirmed it is known as long as that takes."""
    views = start()
    views.change(A, 4, NEW)
    views.settle()
    assert known(views, "link") == {A: OLD}
    views.confirm("link", views.generation)
    views.settle()
    views.add("other", C, [(A, 3)])
    assert known(views, "other") == {}


def test_a_hub_that_is_forgotten() -> None:
    """Nobody goes by what it has told."""
    views = start()
    views.change(A, 4, NEW)
    views.forget(A)
    assert known(views, "link") == {}
