"""`Stretch`: who gets what of a read, against a naive publisher that goes run by run."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from hub.frame import encode_frame
from hub.stretch import Stretch


@dataclass(frozen=True, eq=False)
class Way:
    handlers: tuple[str, ...]


def frame(number: int) -> bytes:
    return encode_frame(3, b"%d" % number, key=b"/a")


def stretch_of(ways: list[Way], *, before: bytes = b"", behind: bytes = b"") -> tuple[Stretch[Way], list[bytes]]:
    runs = [b"".join(frame(10 * place + each) for each in range(place % 3 + 1)) for place in range(len(ways))]
    ends, at = [], len(before)
    for run in runs:
        at += len(run)
        ends.append(at)
    messages = [place % 3 + 1 for place in range(len(ways))]
    return Stretch(before + b"".join(runs) + behind, len(before), (ways, ends, messages)), runs


def got(stretch: Stretch[Way]) -> dict[str, tuple[bytes, int]]:
    all_of_it: dict[str, tuple[bytes, int]] = {}
    for handlers, batch in stretch.gathered(lambda way: way.handlers):
        for handler in handlers:
            assert handler not in all_of_it
            all_of_it[handler] = batch.frames, batch.messages
    return all_of_it


WAYS = st.lists(st.lists(st.sampled_from("abcdef"), unique=True).map(lambda names: Way(tuple(names))), min_size=1)


@given(ways=WAYS, data=st.data(), before=st.sampled_from([b"", b"xy"]), behind=st.sampled_from([b"", b"z"]))
def test_everybody_gets_what_it_wants_in_order(
    ways: list[Way], data: st.DataObject, before: bytes, behind: bytes
) -> None:
    order = data.draw(st.lists(st.sampled_from(ways), min_size=1, max_size=20))
    stretch, runs = stretch_of(order, before=before, behind=behind)
    expected: dict[str, tuple[bytes, int]] = {}
    for way, run, messages in zip(order, runs, stretch.messages, strict=True):
        for handler in way.handlers:
            frames, count = expected.get(handler, (b"", 0))
            expected[handler] = frames + run, count + messages
    assert got(stretch) == expected


def test_the_whole_is_not_copied() -> None:
    stretch, _ = stretch_of([Way(("a",)), Way(("b", "a")), Way(("a",))])
    all_of_it = got(stretch)
    assert all_of_it["a"] == (stretch.whole().frames, 6)
    assert all_of_it["a"][0] is stretch.whole().frames


def test_who_wants_the_same_shares_one_batch() -> None:
    both, only = Way(("a", "b", "c")), Way(("a", "b"))
    stretch, runs = stretch_of([both, only] * 5)
    served = list(stretch.gathered(lambda way: way.handlers))
    assert [sorted(handlers) for handlers, _ in served] == [["a", "b"], ["c"]]
    assert served[0][1].frames == b"".join(runs)
    assert served[1][1].frames == b"".join(runs[::2])


def test_routes_of_nobody_cost_no_batch() -> None:
    stretch, runs = stretch_of([Way(()), Way(("a",)), Way(())])
    ((handlers, batch),) = stretch.gathered(lambda way: way.handlers)
    assert (list(handlers), batch.frames) == (["a"], runs[1])


def test_runs_one_by_one() -> None:
    ways = [Way(("a",)), Way(("b",)), Way(("a",))]
    stretch, runs = stretch_of(ways, behind=b"more")
    assert [(run.route, run.frames, run.messages) for run in stretch] == [
        (way, run, place + 1) for place, (way, run) in enumerate(zip(ways, runs, strict=True))
    ]
