"""Sending what a replay makes of an input."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from hub.errors import BusyError, CloseCode, InvalidTopicError, RejectedError
from peers.cli.lines import InputError
from peers.cli.pub import Feed
from peers.cli.replay import BadLineError, Replay, Template, decode_record
from peers.client import Client, InvalidValueError


class Publisher:
    def __init__(self, *, room: int = 1_000_000) -> None:
        self.room = room
        self.waits = 0
        self.published: list[tuple[str, Any]] = []
        self.refusals: dict[str, Exception] = {}

    def publish_nowait(self, topic: str, value: Any) -> None:
        if topic in self.refusals:
            raise self.refusals[topic]
        if not self.room:
            raise BusyError("full")
        self.room -= 1
        self.published.append((topic, value))

    async def publish(self, topic: str, value: Any) -> None:
        self.waits += 1
        self.room += 2
        self.publish_nowait(topic, value)


def feed_of(publisher: Publisher, *, skip_bad: bool = False) -> Feed:
    return Feed(cast("Client", publisher), Replay(decode_record, Template("/{p}").fill, skip_bad=skip_bad))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "five.ndjson"
    path.write_bytes(b"".join(b'{"p":"%d"}\n' % number for number in range(5)))
    return path


def topics(publisher: Publisher) -> list[str]:
    return [topic for topic, _ in publisher.published]


async def test_a_full_buffer_is_waited_for(file: Path) -> None:
    publisher = Publisher(room=1)
    await feed_of(publisher).send(str(file))
    assert topics(publisher) == ["/0", "/1", "/2", "/3", "/4"]
    assert publisher.waits == 2


async def test_a_file_without_messages_does_not_go_round_forever(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(InputError, match="holds nothing to send"):
        await feed_of(Publisher()).send(str(tmp_path / "empty"), again=True)


REFUSALS = [
    InvalidTopicError("topic bad"),
    InvalidValueError("no msgpack form"),
    RejectedError(CloseCode.TOO_BIG, "too big"),
]


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_message_that_cannot_be_published_is_a_bad_line(file: Path, refusal: Exception) -> None:
    publisher = Publisher()
    publisher.refusals["/2"] = refusal
    with pytest.raises(BadLineError, match=r"five\.ndjson: line 3: "):
        await feed_of(publisher).send(str(file))
    assert topics(publisher) == ["/0", "/1"]
    publisher.published = []
    feed = feed_of(publisher, skip_bad=True)
    await feed.send(str(file))
    assert topics(publisher) == ["/0", "/1", "/3", "/4"]
    assert "1 bad line passed over, the first: " in feed.summary()


async def test_a_hub_that_refuses_us_is_no_bad_line(file: Path) -> None:
    publisher = Publisher()
    publisher.refusals["/2"] = RejectedError(CloseCode.NOT_ALLOWED, "go away")
    with pytest.raises(RejectedError, match="go away"):
        await feed_of(publisher, skip_bad=True).send(str(file))
