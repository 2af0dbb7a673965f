"""The journals of other hubs: questions, answers, and what other hubs are told of this one's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from hub.errors import CloseCode, RejectedError
from hub.handlers.handler import Handler
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, encode_frame
from hub.messages.request_frame import Reply, Request, Status
from hub.requests.hub_services import target_at
from peers.journal.forms import GRANTED_LIMIT, Form, Order, decode_order, encode_order
from peers.journal.remote_journals import ANSWER_MS, ANSWERING_LIMIT, PIECE_BYTES, RemoteJournals
from peers.wire.control import Notice, decode_notice, encode_notice
from peers.wire.kinds import Kind
from peers.wire.records import Fetch, Records, records_parts
from tests.hub.fakes import FakeOutlet
from tests.hub.requests.party import Room
from tests.hub.rights.hall import policy_of

HERE, THERE, OTHER = b"h" * 16, b"t" * 16, b"o" * 16

_pack = msgspec.msgpack.encode


class FakeJournal:
    def __init__(self) -> None:
        self.id = b"0123456789abcdef"
        self.fetches: list[tuple[Fetch, Callable[[Any], None]]] = []

    def fetch(self, fetch: Fetch, deliver: Callable[[Any], None], _: object = None) -> Callable[[], None]:
        self.fetches.append((fetch, deliver))
        return lambda: None


class Bench:
    def __init__(self) -> None:
        self.room = Room(hub_id=HERE)
        self.journal = FakeJournal()
        self.journals = RemoteJournals(self.room.core, "here", lambda: self.room.now_ms, lambda: self.journal)  # type: ignore[arg-type,return-value]
        self.outcomes: list[Any] = []
        self.link, self.outlet = self._named(THERE, "there")

    def _named(self, hub: bytes, name: str) -> tuple[Handler, FakeOutlet]:
        linked = self.room.link(hub)
        self.room.core.mesh.records[hub].name = name
        return linked

    def fetch(self, hub: str = "there", **fields: Any) -> Callable[[], None]:
        cancel = self.journals.fetch(Order(fields.pop("request", 9), hub=hub, **fields), self.outcomes.append)
        self.room.settle()
        return cancel

    def asked(self, outlet: FakeOutlet | None = None) -> tuple[Request, Order]:
        (item,) = (outlet or self.outlet).take()
        assert isinstance(item, Request)
        return item, decode_order(msgspec.msgpack.decode(item.values))

    def figures(self) -> tuple[int, ...]:
        one = self.journals
        return one.pending, one.asked_total, one.answering, one.answered_total, one.refused_total

    def answer(self, values: bytes, *, form: Form = "frame", status: int = Status.OK, flags: int = 0) -> Any:
        self.fetch(form=form)
        request, _ = self.asked()
        self.room.answer(self.link, Reply(request.first, status, values, flags))
        (outcome,) = self.outcomes
        self.outcomes.clear()
        assert self.journals.pending == 0
        return outcome

    def question(self, order: Any, link: Handler | None = None, first: int = 3) -> None:
        value = encode_order(order) if isinstance(order, Order) else order
        target = target_at(HERE, "journal")
        self.room.ask(link or self.link, Request(target, first, 0, _pack(value)))

    def told(self) -> Notice | bytes:
        (item,) = self.outlet.take()
        assert isinstance(item, Reply)
        assert item.status == Status.OK
        frame = msgspec.msgpack.decode(item.values, type=bytes)
        return decode_notice(frame[8:]) if frame[4] == Kind.NOTICE else frame

    def refusal(self) -> Notice:
        told = self.told()
        assert isinstance(told, Notice)
        return told


@pytest.fixture
def bench() -> Bench:
    return Bench()


def records(request: int = 9, journal: bytes = b"") -> bytes:
    return encode_frame(Kind.RECORDS, b"".join(records_parts(Records(request, 1, 2, 0, 5, [b"block"], journal))))


def test_a_piece_is_one_request(bench: Bench) -> None:
    bench.fetch(start=4, prefixes=("/a",), bytes=1 << 30, wait_ms=500, journal=b"x" * 16, form="json")
    request, order = bench.asked()
    assert request.target == target_at(THERE, "journal")
    assert request.timeout_ms == 500 + ANSWER_MS
    assert order == Order(9, 4, None, None, ("/a",), PIECE_BYTES, 500, "", b"x" * 16, form="json")
    bench.journals.fetch(Fetch(1, hub="there", bytes=5), bench.outcomes.append)
    bench.room.settle()
    assert bench.asked()[1] == Order(1, bytes=5)
    assert bench.figures() == (2, 2, 0, 0, 0)


def test_its_answer_goes_on_as_it_is(bench: Bench) -> None:
    assert bench.answer(_pack(records())) == records()
    assert bench.answer(_pack(records(journal=b"x" * 16))) == records(journal=b"x" * 16)
    for form, body in (
        ("json", b'{"type":"records","request":9,"start":0}'),
        ("msgpack", _pack({"type": "records", "request": 9, "start": 0})),
    ):
        frame = encode_frame(Kind.RECORDS, body)
        assert bench.answer(_pack(frame), form=form) == frame  # type: ignore[arg-type]


def test_a_refusal_names_the_hub(bench: Bench) -> None:
    notice = Notice("error", request=1, code=4011, text="gone", offset=7)
    outcome = bench.answer(_pack(encode_notice(notice)))
    assert decode_notice(outcome[8:]) == Notice(
        "error", request=9, code=4011, text="journal of hub 'there': gone", offset=7
    )
    long = bench.answer(_pack(encode_notice(Notice("confirmed", text="x" * 10_000))))
    assert len(long) < 1_200
    assert decode_notice(long[8:]).kind == "error"


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("frame", _pack(7)),
        ("frame", b"\xc1"),
        ("frame", _pack(b"")),
        ("frame", _pack(b"\0" * 8)),
        ("frame", _pack(records()[:-1])),
        ("frame", _pack(records() + b"x")),
        ("frame", _pack(records(8))),
        ("frame", _pack(encode_frame(Kind.RECORDS, b"short"))),
        ("frame", _pack(encode_frame(Kind.RECORDS, records()[8:], flags=1))),
        ("frame", _pack(encode_frame(Kind.RECORDS, records()[8:], key=b"/a"))),
        ("frame", _pack(encode_frame(Kind.CLOSE, records()[8:]))),
        ("frame", _pack(encode_frame(Kind.NOTICE, b"\xc1"))),
        ("frame", _pack(encode_frame(Kind.NOTICE, _pack({"kind": "other"})))),
        ("json", _pack(records())),
        ("json", _pack(encode_frame(Kind.RECORDS, b'{"type":"records","request":90,"start":0}'))),
        ("json", _pack(encode_frame(Kind.RECORDS, b'{"type":"messages"}'))),
        ("msgpack", _pack(encode_frame(Kind.RECORDS, _pack({"type": "records", "request": 8, "start": 0})))),
        ("msgpack", _pack(encode_frame(Kind.RECORDS, b"\xc1"))),
    ],
)
def test_what_is_no_answer(bench: Bench, form: Form, value: bytes) -> None:
    outcome = bench.answer(value, form=form)
    assert isinstance(outcome, RejectedError)
    assert (outcome.code, outcome.text) == (CloseCode.JOURNAL_FAILED, "journal of hub 'there': that was no answer")


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (Status.FAILED, CloseCode.JOURNAL_FAILED),
        (Status.NO_RESPONDER, CloseCode.TRY_AGAIN_LATER),
        (Status.RESPONDER_GONE, CloseCode.TRY_AGAIN_LATER),
        (Status.TIMED_OUT, CloseCode.TRY_AGAIN_LATER),
        (Status.OVERFLOW, CloseCode.TRY_AGAIN_LATER),
        (Status.NOT_ALLOWED, CloseCode.NOT_ALLOWED),
        (Status.TOO_BIG, CloseCode.TOO_BIG),
    ],
)
def test_a_request_that_fails(bench: Bench, status: Status, code: CloseCode) -> None:
    outcome = bench.answer(_pack("why"), status=status)
    assert (outcome.code, outcome.text) == (code, "journal of hub 'there': why")
    assert bench.answer(_pack(""), status=status).text == "journal of hub 'there': that has failed"
    for value in (_pack(7), b"\xc1"):
        assert bench.answer(value, status=status).code == code
    assert bench.answer(BATCH_COUNT.pack(1) + _pack("why"), status=status, flags=FLAG_BATCH).text.endswith(": why")


def test_no_answer(bench: Bench) -> None:
    bench.fetch(wait_ms=1_000)
    bench.room.later(ANSWER_MS)
    assert bench.outcomes == []
    bench.room.later(1_100)
    assert bench.outcomes.pop().text == "journal of hub 'there': no answer in time"
    for request in range(1, 4):
        bench.fetch(request=request)
    bench.room.core.detach(bench.link, "lost")
    bench.room.settle()
    lost = (CloseCode.TRY_AGAIN_LATER, "journal of hub 'there': the service was lost before it answered")
    assert [(one.code, one.text) for one in bench.outcomes] == [lost] * 3


def test_nobody_waits_any_more(bench: Bench) -> None:
    cancel = bench.fetch()
    request, _ = bench.asked()
    cancel()
    assert bench.journals.pending == 0
    assert bench.answer(_pack(records())) == records()
    bench.room.answer(bench.link, Reply(request.first, Status.OK, _pack(records())))
    assert bench.outcomes == []


def test_by_which_name(bench: Bench) -> None:
    for own in ("here", HERE.hex()):
        bench.fetch(own)
        ((order, deliver),) = bench.journal.fetches
        assert order.hub == ""
        deliver(b"frame")
        assert (bench.outcomes.pop(), bench.journal.fetches.pop()) == (b"frame", (order, deliver))
    _, other = bench._named(OTHER, THERE.hex())
    bench.fetch(THERE.hex())
    assert bench.asked()[0].target == target_at(THERE, "journal")
    assert other.take() == []
    bench.room.core.mesh.records[OTHER].name = "there"
    with pytest.raises(RejectedError) as caught:
        bench.fetch("there")
    assert caught.value.code == CloseCode.BAD_DATA
    assert caught.value.text == (
        f"2 hubs of the mesh have the name 'there': {OTHER.hex()}, {THERE.hex()}; say which of them by its id"
    )


LONG = _pack({"request": 1, "granted": [[["a/" * 10_000, True]]]})
"""A question with a path that is longer than any topic."""


def test_another_hub_reads(bench: Bench) -> None:
    bench.question(Order(5, 3, form="msgpack"))
    order, deliver = bench.journal.fetches.pop()
    assert order == Order(5, 3, bytes=PIECE_BYTES, form="msgpack")
    assert bench.outlet.take() == []
    deliver(bytearray(records()))
    bench.room.settle()
    assert bench.told() == records()
    bench.question(Order(5, bytes=1 << 40))
    order, deliver = bench.journal.fetches.pop()
    assert order.bytes == PIECE_BYTES
    deliver(RejectedError(CloseCode.TRY_AGAIN_LATER, "busy"))
    bench.room.settle()
    assert bench.told() == Notice("error", code=1013, text="busy")
    bench.link.frame_limit_bytes = 64 * 1024
    bench.question(Order(5), first=4)
    assert 0 < 5 * bench.journal.fetches.pop()[0].bytes < 64 * 1024


@pytest.mark.parametrize("order", [b"", b"\xc1", 7, _pack({"request": 0}), _pack({"request": 1, "form": "xml"}), LONG])
def test_what_is_refused_to_another_hub(bench: Bench, order: Any) -> None:
    bench.question(order)
    assert bench.refusal().code == CloseCode.BAD_DATA
    bench.link.rights = policy_of('[roles.r]\nlink = { take = ["/a"] }\n[users]\nuser = ["r"]\n').rights("user")
    bench.question(Order(5, granted=((("/b", True),),) * GRANTED_LIMIT))
    told = bench.refusal()
    assert (told.code, "64 policies narrow this already" in told.text) == (CloseCode.NOT_ALLOWED, True)
    bench.journal.id = b""
    bench.question(Order(5))
    assert bench.told() == Notice("error", code=1008, text="that hub has no journal of its own")
    assert bench.journal.fetches == []


def test_too_many_wait(bench: Bench) -> None:
    for number in range(ANSWERING_LIMIT):
        bench.question(Order(5), first=number)
    assert len(bench.journal.fetches) == ANSWERING_LIMIT
    bench.question(Order(5), first=ANSWERING_LIMIT)
    assert bench.refusal().code == CloseCode.TRY_AGAIN_LATER
    bench.journal.fetches[0][1](records())
    bench.room.settle()
    bench.outlet.take()
    bench.question(Order(5), first=ANSWERING_LIMIT + 1)
    assert len(bench.journal.fetches) == ANSWERING_LIMIT + 1
    assert bench.figures() == (0, 0, ANSWERING_LIMIT, 1, 1)


def test_what_a_link_may_take(bench: Bench) -> None:
    policy = policy_of('[roles.r]\nlink = { take = ["/a"], bring = [] }\n[users]\nuser = ["r"]\n')
    bench.link.rights = policy.rights("user")
    before = (("/b", True),)
    bench.question(Order(5, granted=(before,)))
    ((order, deliver),) = bench.journal.fetches
    assert isinstance(order, Order)
    assert order.granted == (before, (("/a", True),))
    bench.question(Order(5, prefixes=("/a/",)), first=4)
    assert bench.journal.fetches[1][0] == Order(5, prefixes=("/a/",), bytes=PIECE_BYTES)
    bench.link.rights = policy_of('[roles.r]\nlink = {}\n[users]\nuser = ["r"]\n').rights("user")
    deliver(records())
    bench.room.settle()
    told = bench.refusal()
    assert (told.code, told.text) == (CloseCode.TRY_AGAIN_LATER, "the permissions of the link have changed: try again")
    bench.question(Order(5), first=6)
    assert bench.refusal().text == "take: nothing is granted to the link of user 'user'"
