"""What services have answered becomes few frames."""

from __future__ import annotations

import msgspec
import pytest

from hub.request_frame import Reply, Status
from peers.client.service import Replies
from peers.client.values import InvalidValueError, read_values
from peers.wire.reasons import reason_of


def taken(replies: Replies) -> list[tuple[int, list[object]]]:
    return [
        (one.first, [f"{one.requests}: {reason_of(one)}"] if one.status else read_values(one.flags, one.values))
        for one in replies.take()
    ]


def test_frames_are_bounded() -> None:
    replies = Replies()
    for number in range(5000):
        replies.put_one(number, 0)
    assert [(first, len(values)) for first, values in taken(replies)] == [(0, 4096), (4096, 904)]
    for number in range(4):
        replies.put_one(number, bytes(30_000))
    replies.put_one(4, bytes(100_000))
    assert [(first, len(values)) for first, values in taken(replies)] == [(0, 2), (2, 2), (4, 1)]


def test_what_the_hub_does_not_take() -> None:
    """A value that is too large, or has no form, is not answered; a frame that is too large is cut."""
    replies = Replies()
    replies.frame_limit_bytes = 1000
    for values in ([1, bytes(2000)], [bytes(2000)], [object()]):
        with pytest.raises(InvalidValueError):
            replies.put(1, values)
    with pytest.raises(InvalidValueError, match="takes at most 991"):
        replies.put_one(1, bytes(2000))
    assert not replies
    replies.put(1, [bytes(300)] * 7)
    frames = list(replies.take())
    assert sum(frame.requests for frame in frames) == 7
    assert all(frame.size_bytes <= 1000 for frame in frames)
    assert [frame.first for frame in frames] == [1, 4, 6]


def test_reasons() -> None:
    """A reason is cut, and is Unicode whatever the exception said; what is no text is told as Python writes it."""
    replies = Replies()
    replies.fail(1, 1, "x" * 10_000)
    replies.fail(2, 1, "\ud800")
    reasons = [reason_of(reply) for reply in replies.take()]
    assert reasons == ["x" * 4096, "?"]
    assert reason_of(Reply(1, Status.FAILED, msgspec.msgpack.encode({"a": 1}))) == "{'a': 1}"
    assert reason_of(Reply(1, Status.FAILED, b"\xc1")) == "the reason that was given cannot be read"
