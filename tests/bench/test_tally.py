"""`Tally`: every message is accounted for once, however the stream is cut and whatever is missing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from peers.bench.framing import Control, cut_tcp, cut_websocket
from peers.bench.histogram import Histogram
from peers.bench.layout import Layout
from peers.bench.tally import Tally
from peers.bench.template import Template
from peers.wire.control import Notice, encode_close, encode_notice
from tests.bench.streams import Item, tcp, tcp_batch, websocket_messages

LAYOUT = Layout("/bench/0000/", 3, 20, 1)
ONE_TOPIC = Layout("/bench/0000/", 1, 20, 1)


def tally_of(layout: Layout = LAYOUT, publishers: int = 2) -> tuple[Tally, list[Control]]:
    """A tally of a TCP stream, and what it reports beside messages."""
    controls: list[Control] = []
    return Tally(layout, publishers, cut_tcp, controls.append), controls


def feed(tally: Tally, data: bytes, cuts: list[int] | None = None, now_ns: int = 0) -> None:
    """Feed a stream in reads that end at `cuts`."""
    held = b""
    position = 0
    for cut in sorted({min(cut, len(data)) for cut in cuts or []} | {len(data)}):
        buffer = bytearray(held + data[position:cut])
        rest = tally.feed(buffer, len(buffer), now_ns)
        held = bytes(buffer[rest:])
        position = cut
    assert not held


@st.composite
def journeys(draw: st.DrawFn) -> tuple[list[int], list[Item]]:
    """What two publishers sent, and in which order what of it arrived: some lost, each publisher's in order."""
    sent = [draw(st.integers(0, 60)), draw(st.integers(0, 60))]
    arriving = []
    for publisher, count in enumerate(sent):
        kept = draw(st.sets(st.integers(0, max(0, count - 1)), max_size=10)) if count else set()
        arriving.append([(publisher, number) for number in range(count) if number not in kept])
    mixed: list[Item] = []
    while any(arriving):
        queue = arriving[draw(st.integers(0, 1))]
        take = draw(st.integers(1, 20))
        mixed += queue[:take]
        del queue[:take]
    return sent, mixed


@given(journeys(), st.lists(st.integers(0, 8000)))
def test_received_and_lost_add_up(journey: tuple[list[int], list[Item]], cuts: list[int]) -> None:
    """Two publishers mixed, losses anywhere, reads cut anywhere: received and lost are exact."""
    sent, arriving = journey
    tally, _ = tally_of()
    feed(tally, tcp(LAYOUT, arriving), cuts)
    counted = tally.take(sent)
    assert counted.received == len(arriving)
    assert counted.lost == sum(sent) - len(arriving)
    assert counted.out_of_order == counted.misrouted == 0


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=20), st.sets(st.integers(0, 19)), st.lists(st.integers(0, 9000))
)
def test_batches_of_any_size(sizes: list[int], lost: set[int], cuts: list[int]) -> None:
    """Frames with different numbers of values, some lost, are accounted for by value."""
    tally, _ = tally_of(ONE_TOPIC, publishers=1)
    data, start, received = b"", 0, 0
    for index, size in enumerate(sizes):
        if index not in lost:
            data += tcp_batch(ONE_TOPIC, [(0, start + number) for number in range(size)])
            received += size
        start += size
    feed(tally, data, cuts)
    counted = tally.take([start])
    assert (counted.received, counted.lost, counted.out_of_order) == (received, start - received, 0)


def test_a_frame_whose_values_do_not_count_up() -> None:
    """A hub may put values together in one frame that have a gap between them."""
    tally, _ = tally_of(ONE_TOPIC, publishers=2)
    feed(tally, tcp_batch(ONE_TOPIC, [(0, 0), (0, 1), (0, 5), (1, 0)]))
    counted = tally.take([6, 1])
    assert (counted.received, counted.lost, counted.out_of_order) == (4, 3, 0)


def test_websocket_frames() -> None:
    """The same account over the other protocol, with frames of one and of several values."""
    controls: list[Control] = []
    tally = Tally(ONE_TOPIC, 1, cut_websocket, controls.append)
    data = websocket_messages(ONE_TOPIC, [(0, 0)]) + websocket_messages(ONE_TOPIC, [(0, 1), (0, 2)])
    feed(tally, data + websocket_messages(ONE_TOPIC, [(0, 4)]), cuts=[1, 2, 50, 51])
    counted = tally.take([5])
    assert (counted.received, counted.lost) == (4, 1)


def test_a_long_stream_in_large_reads() -> None:
    """What a template makes is read in strides, over several blocks and over the carry into the upper half."""
    layout = Layout("/bench/0000/", 7, 20, 1)
    template = Template(layout, publisher=1)
    tally, _ = tally_of(layout)
    total = 70_001
    position, data = 0, b""
    while position < total:
        piece = bytes(template.block(position, total - position))
        position += len(piece) // layout.frame_bytes
        data += piece
    feed(tally, data, cuts=list(range(0, len(data), 250_001)))
    counted = tally.take([0, total])
    assert counted.received == total
    assert counted.lost == counted.out_of_order == counted.misrouted == 0


def test_a_message_twice_or_too_late_is_out_of_order() -> None:
    """It was lost where it should have been, and is out of order where it comes."""
    tally, _ = tally_of(publishers=1)
    feed(tally, tcp(LAYOUT, [(0, 0), (0, 2), (0, 1), (0, 2), (0, 3)]))
    counted = tally.take([4])
    assert (counted.received, counted.lost, counted.out_of_order) == (5, 1, 2)


def test_another_topic_is_misrouted() -> None:
    """A message under a topic that its number does not belong to."""
    tally, _ = tally_of(publishers=1)
    data = tcp(LAYOUT, [(0, 1)]).replace(LAYOUT.topic(1).encode(), LAYOUT.topic(2).encode())
    feed(tally, data)
    assert tally.take([2]).misrouted == 1


def test_what_the_hub_tells() -> None:
    """Losses that it told are counted apart from those that are seen; the rest is passed on."""
    tally, controls = tally_of(publishers=1)
    told = encode_notice(Notice("dropped", count=2)) + encode_notice(Notice("dropped", count=3))
    feed(tally, tcp(LAYOUT, [(0, 0)]) + told + tcp(LAYOUT, [(0, 6)]) + encode_close(1001, "bye"))
    counted = tally.take([7])
    assert (counted.received, counted.lost, counted.told) == (2, 5, 5)
    assert [(control.word, control.code) for control in controls] == [("close", 1001)]


def test_an_account_begins_anew_after_it_was_taken() -> None:
    """What was taken is not counted again, and what it held for lost is over."""
    tally, _ = tally_of(publishers=1)
    feed(tally, tcp(LAYOUT, [(0, 0)]))
    assert tally.take([3]).lost == 2
    feed(tally, tcp(LAYOUT, [(0, 3)]))
    counted = tally.take([4])
    assert (counted.received, counted.lost) == (1, 0)


def test_latencies_are_measured_from_the_intended_time() -> None:
    """Read at 5,000 ns what was to be sent at 2,000; what has no time is not measured."""
    tally, _ = tally_of(publishers=1)
    tally.latency = Histogram()
    feed(tally, tcp(LAYOUT, [(0, 0), (0, 1)], time_ns=2000) + tcp(LAYOUT, [(0, 2)]), now_ns=5000)
    assert tally.latency.total == 2
    assert tally.latency.largest == 3000
