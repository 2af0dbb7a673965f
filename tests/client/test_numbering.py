"""The numbers of a client's requests tell to which part an answer belongs."""

from __future__ import annotations

from itertools import pairwise

from peers.client.conversation import JOURNAL, NAMES, SERVICES, SUBSCRIPTIONS, TOKENS, Numbers


def test_parts_share_no_number() -> None:
    parts = [SUBSCRIPTIONS, NAMES, TOKENS, SERVICES, JOURNAL]
    assert all(one.stop == following.start for one, following in pairwise(parts))
    assert (parts[0].start, parts[-1].stop) == (1, 1 << 32)


def test_numbers_begin_anew_behind_the_last() -> None:
    numbers = Numbers(range(10, 13))
    assert [numbers.next() for _ in range(6)] == [11, 12, 10, 11, 12, 10]
