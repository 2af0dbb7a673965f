"""Which of two links to the same hub stays; the rules one by one. Crossed dialling is played through in tests/tcp."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from hub.errors import CloseCode, RejectedError
from peers.links import Links

LOW, OWN, HIGH = b"\x01" * 16, b"\x02" * 16, b"\x03" * 16


@dataclass(eq=False)
class FakeLink:
    """Remembers why it was closed."""

    dialled: bool = False
    used: bool = False
    refused: list[int] = field(default_factory=list)

    def refuse(self, code: int, text: str) -> None:
        """Take the end."""
        assert text
        self.refused.append(code)


def linked(hub_id: bytes, link: FakeLink) -> Links:
    """Links of the hub `OWN` with one in them."""
    links = Links(OWN)
    links.add(hub_id, link)
    return links


def test_links_to_different_hubs() -> None:
    """Do not concern each other."""
    first, second = FakeLink(), FakeLink()
    links = linked(LOW, first)
    links.add(HIGH, second)
    assert len(links) == 2
    assert not first.refused
    assert not second.refused


def test_oneself() -> None:
    """Is refused, and not remembered."""
    links = Links(OWN)
    with pytest.raises(RejectedError, match="that is yourself") as refused:
        links.add(OWN, FakeLink())
    assert refused.value.code == CloseCode.THAT_IS_YOURSELF
    assert len(links) == 0


@pytest.mark.parametrize("far", [LOW, HIGH])
@pytest.mark.parametrize("older_dialled", [False, True])
@pytest.mark.parametrize("newer_dialled", [False, True])
def test_a_link_in_use_stays(far: bytes, *, older_dialled: bool, newer_dialled: bool) -> None:
    """Whoever has dialled which."""
    older = FakeLink(dialled=older_dialled, used=True)
    links = linked(far, older)
    with pytest.raises(RejectedError, match=f"already connected.*{far.hex()}") as refused:
        links.add(far, FakeLink(dialled=newer_dialled))
    assert refused.value.code == CloseCode.ALREADY_CONNECTED
    assert not older.refused
    assert len(links) == 1


@pytest.mark.parametrize("far", [LOW, HIGH])
@pytest.mark.parametrize("dialled", [False, True])
def test_the_first_of_two_in_one_direction_stays(far: bytes, *, dialled: bool) -> None:
    """A side that has dialled twice has no reason to."""
    older = FakeLink(dialled=dialled)
    links = linked(far, older)
    with pytest.raises(RejectedError, match="already connected"):
        links.add(far, FakeLink(dialled=dialled))
    assert not older.refused


@pytest.mark.parametrize("far", [LOW, HIGH])
@pytest.mark.parametrize("older_dialled", [False, True])
def test_of_crossed_links_the_one_that_the_lower_has_dialled_stays(far: bytes, *, older_dialled: bool) -> None:
    """In whatever order they come."""
    older, newer = FakeLink(dialled=older_dialled), FakeLink(dialled=not older_dialled)
    links = linked(far, older)
    lower_dialled = older if older.dialled == (far > OWN) else newer
    if lower_dialled is older:
        with pytest.raises(RejectedError, match="already connected"):
            links.add(far, newer)
        assert not older.refused
    else:
        links.add(far, newer)
        assert older.refused == [CloseCode.ALREADY_CONNECTED]
    assert not newer.refused
    assert len(links) == 1
    links.remove(far, older if lower_dialled is newer else newer)
    assert len(links) == 1, "the one that stays is not forgotten with the other"
    links.remove(far, lower_dialled)
    assert len(links) == 0


def test_a_link_that_is_gone_makes_room() -> None:
    """For another of any sort; forgetting twice is harmless."""
    first, second = FakeLink(used=True), FakeLink()
    links = linked(HIGH, first)
    links.remove(HIGH, first)
    links.remove(HIGH, first)
    links.add(HIGH, second)
    links.remove(HIGH, first)
    assert len(links) == 1
