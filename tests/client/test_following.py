"""The way from history to live, without I/O: whatever happens on it, each record is handed on once, in order."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hub.batch import Batch
from hub.errors import CloseCode, RejectedError
from peers.client.following import Following, Phase, Want
from peers.client.values import decode_batch

LIMIT = 10_000


def batch(*numbers: int) -> Batch:
    """Messages with these numbers."""
    return Batch.of("/a", numbers)


def numbers(batches: list[Batch]) -> list[int]:
    """The numbers of messages."""
    return [message.value for one in batches for message in decode_batch(one)[0]]


def at_seam(position: int = 5, seam: int = 8) -> Following:
    """A stream that has read up to `position` and subscribed at `seam`."""
    state = Following(0, LIMIT)
    state.fetched(position, position)
    state.joined(seam)
    return state


def live() -> Following:
    """A stream that is live from offset 5 on."""
    return at_seam(5, 5)


def test_the_way() -> None:
    """Pieces up to the end, a line, pieces up to the seam; then what was put aside, and what comes."""
    state = Following(2, LIMIT)
    assert (state.phase, state.want, state.position) == (Phase.HISTORY, Want.PIECE, 2)
    state.fetched(4, 6)
    assert state.want is Want.PIECE
    state.fetched(6, 6)
    assert (state.phase, state.want) == (Phase.JOINING, Want.LINE)
    assert not state.put(batch(9))
    state.joined(9)
    assert (state.phase, state.want, state.position, state.seam) == (Phase.SEAM, Want.PIECE, 6, 9)
    assert not state.put(batch(10, 11))
    state.fetched(8, 8)
    assert state.phase is Phase.SEAM
    state.fetched(9, 12)
    assert (state.phase, state.want) == (Phase.LIVE, Want.NOTHING)
    assert numbers(state.take_aside()) == [9, 10, 11]
    assert state.take_aside() == []
    assert state.put(batch(12))


def test_a_journal_that_cannot_be_joined() -> None:
    """Is read for ever; what comes is live once the end was reached."""
    state = Following(2, LIMIT, joins=False)
    assert (state.want, state.is_live) == (Want.PIECE, False)
    state.fetched(4, 6)
    assert (state.want, state.is_live) == (Want.PIECE, False)
    for _ in range(2):
        state.fetched(6, 6)
        assert (state.phase, state.want, state.is_live, state.is_joined) == (Phase.HISTORY, Want.MORE, True, False)
    state.fetched(8, 9)
    assert (state.want, state.is_live, state.position) == (Want.PIECE, True, 8)


def test_nothing_between() -> None:
    """A subscription that begins where reading has ended is live at once."""
    assert live().phase is Phase.LIVE


def test_too_much_aside() -> None:
    """The subscription is given back, what was put aside is read from the journal; later it is tried again."""
    state = at_seam()
    assert not state.put(Batch.of("/a", ["x" * LIMIT]))
    assert (state.phase, state.want, state.position, state.seam) == (Phase.HISTORY, Want.PIECE, 5, None)
    assert not state.put(batch(9))
    assert state.take_aside() == []
    state.fetched(9, 9)
    assert (state.phase, state.want) == (Phase.HISTORY, Want.MORE)
    state.rested()
    assert state.want is Want.MORE
    state.fetched(9, 9)
    assert state.want is Want.LINE


@pytest.mark.parametrize("phase", [Phase.JOINING, Phase.SEAM])
def test_lost_before_it_is_live(phase: Phase) -> None:
    """A connection or messages that are lost before the stream is live are no loss."""
    for happen in (Following.lost, Following.missed):
        state = at_seam()
        if phase is Phase.JOINING:
            state = Following(5, LIMIT)
            state.fetched(5, 5)
        assert state.phase is phase
        state.put(batch(9))
        assert not happen(state)
        assert (state.phase, state.position, state.take_aside()) == (Phase.HISTORY, 5, [])


def test_lost_when_nothing_has_come() -> None:
    """What is live is lost before it has brought anything: reading goes on from the seam, nothing is missing."""
    state = live()
    assert not state.lost()
    assert (state.phase, state.want, state.position) == (Phase.HISTORY, Want.PIECE, 5)


@pytest.mark.parametrize("how", ["put", "missed", "aside"])
def test_lost_when_something_has_come(how: str) -> None:
    """Nobody knows at which offset: it is told, once, and the stream goes on with what comes next."""
    state = live()
    match how:
        case "put":
            assert state.put(batch(5))
        case "missed":
            assert state.missed()
        case _:
            state = at_seam()
            state.put(batch(8))
            state.fetched(8, 8)
    assert state.lost()
    assert (state.phase, state.want) == (Phase.REJOINING, Want.LINE)
    assert not state.lost()
    assert state.phase is Phase.REJOINING
    state.joined(None)
    assert state.phase is Phase.LIVE
    assert not state.lost(), "nothing has come since it was told"


def test_lost_again_while_it_subscribes() -> None:
    """What comes before the confirmation was looked at has come: the next loss is told, too."""
    state = live()
    for happen in (lambda: state.put(batch(20)), state.missed):
        assert state.put(batch(10))
        assert state.lost()
        assert happen()
        assert state.lost()
        assert state.phase is Phase.REJOINING


def test_what_was_on_its_way_to_the_disk_did_not_arrive() -> None:
    """The hub has no more although the seam is not reached: the seam is none, the journal has failed in between."""
    state = at_seam()
    state.fetched(7, 7)
    assert state.phase is Phase.SEAM
    state.put(batch(8))
    state.fetched(7, 7)
    assert (state.phase, state.position) == (Phase.HISTORY, 7)


def test_a_subscription_that_nobody_knows_the_beginning_of() -> None:
    """A journal that is not written has no seam."""
    state = Following(5, LIMIT)
    state.fetched(5, 5)
    with pytest.raises(RejectedError, match="cannot be written") as caught:
        state.joined(None)
    assert caught.value.code == CloseCode.JOURNAL_FAILED


def test_a_journal_that_goes_back() -> None:
    """A subscription that begins before what was read is that of another journal."""
    state = Following(5, LIMIT)
    state.fetched(5, 5)
    with pytest.raises(RejectedError, match="another one") as caught:
        state.joined(4)
    assert caught.value.code == CloseCode.GONE


class World(RuleBasedStateMachine):
    """A hub that publishes and commits, lines that bring or lose messages, and one stream."""

    @initialize(before=st.integers(0, 30), start=st.integers(0, 30), limit=st.integers(200, 1000))
    def begin(self, before: int, start: int, limit: int) -> None:
        """Some records are there already."""
        self.published = self.committed = before
        self.start = min(start, before)
        self.state = Following(self.start, limit)
        self.got: list[int] = []
        self.segments = [(self.start, self.got)]  # what was handed on between two losses that were told
        self.line: list[int] | None = None  # published and not delivered
        self.confirmed: int | None = None

    def hand_on(self, found: list[int]) -> None:
        """The reader gets something."""
        self.got += found

    def settle(self) -> None:
        """Do what the shell does after each event."""
        if self.state.phase is Phase.HISTORY:
            self.line = self.confirmed = None
        elif self.state.phase is Phase.LIVE:
            self.hand_on(numbers(self.state.take_aside()))

    def told(self) -> None:
        """Something is missing here, and the reader knows."""
        self.got = []
        self.segments.append((-1, self.got))

    @rule(count=st.integers(1, 5))
    def publish(self, count: int) -> None:
        """Somebody publishes."""
        if self.line is not None:
            self.line += range(self.published, self.published + count)
        self.published += count

    @rule()
    def commit(self) -> None:
        """The journal is written."""
        self.committed = self.published

    @precondition(lambda self: self.state.want in {Want.PIECE, Want.MORE})
    @rule(size=st.integers(0, 12))
    def fetch(self, size: int) -> None:
        """A piece is read; in SEAM the hub holds the answer until the start is on the disk."""
        state = self.state
        if state.seam is not None and state.position >= self.committed:
            self.commit()
        end = self.committed if state.seam is None else min(state.seam, self.committed)
        following = min(end, state.position + max(size, state.phase is Phase.SEAM))
        self.hand_on(list(range(state.position, following)))
        state.fetched(following, self.committed)
        self.settle()

    @precondition(lambda self: self.state.want is Want.LINE and self.line is None)
    @rule(quick=st.booleans())
    def subscribe(self, *, quick: bool = False) -> None:
        """The hub takes a subscription; messages may come before the stream looks at the confirmation."""
        self.line = []
        self.confirmed = self.published
        if quick:
            self.publish(2)
            self.deliver(1)

    @precondition(lambda self: self.state.want is Want.LINE and self.line is not None)
    @rule()
    def confirm(self) -> None:
        """The stream hears of it."""
        self.state.joined(self.confirmed)
        self.settle()

    @precondition(lambda self: self.line)
    @rule(count=st.integers(1, 20))
    def deliver(self, count: int) -> None:
        """Messages arrive."""
        assert self.line is not None
        arrived, self.line = self.line[:count], self.line[count:]
        if self.state.put(batch(*arrived)):
            self.hand_on(arrived)
        self.settle()

    @precondition(lambda self: self.line)
    @rule(count=st.integers(1, 3))
    def overflow(self, count: int) -> None:
        """The hub drops messages, and tells it."""
        assert self.line is not None
        self.line = self.line[count:]
        if self.state.missed():
            self.told()
        self.settle()

    @precondition(lambda self: self.line is not None)
    @rule()
    def lose(self) -> None:
        """The connection breaks."""
        if self.state.lost():
            self.told()
        self.line = self.confirmed = None
        self.settle()

    @rule()
    def rest(self) -> None:
        """Time passes."""
        self.state.rested()

    @rule()
    def become_live(self) -> None:
        """Nothing stands in the way for a while."""
        self.commit()
        while self.state.phase is not Phase.LIVE:
            self.rest()
            match self.state.want:
                case Want.LINE if self.line is None:
                    self.subscribe()
                case Want.LINE:
                    self.confirm()
                case _:
                    self.fetch(7)

    @invariant()
    def nothing_is_missing_or_doubled(self) -> None:
        """Between two losses that were told, everything is there once; over them, nothing comes again."""
        last = -1
        for number, (start, got) in enumerate(self.segments):
            if got:
                first = got[0]
                assert first == start if number == 0 else first > last
                assert got == list(range(first, first + len(got)))
                last = got[-1]

    def teardown(self) -> None:
        """In the end the stream becomes live, and everything has come."""
        if not hasattr(self, "state"):
            return
        self.become_live()
        while self.line:
            self.deliver(20)
        if len(self.segments) == 1:
            assert self.got == list(range(self.start, self.published))
        elif self.got:
            assert self.got[-1] == self.published - 1
        self.nothing_is_missing_or_doubled()


World.TestCase.settings = settings(max_examples=400, stateful_step_count=40, deadline=None)
TestWorld = World.TestCase
