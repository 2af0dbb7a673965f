"""Asking and serving: what is answered, by whom, and what becomes of requests whose asker or service is lost."""

from __future__ import annotations

from typing import Any

import pytest

from hub.errors import CloseCode
from hub.limits import QueueLimits, RequestLimits
from hub.messages.request_frame import Status
from hub.settings.settings import Settings
from tests.commands.conftest import Place, StartPlace
from tests.commands.talkers import except_on
from tests.hubs.eventually import eventually
from tests.hubs.settings import settings_of

EXCEPT_ON = {"http": "has neither requests nor services"}


async def pair(place: Place, *prefixes: str) -> tuple[Any, Any]:
    asker, service = await place.clients(2)
    await service.done("serve", prefixes=list(prefixes))
    return asker, service


def failed(request: int, status: Status, answer: dict[str, Any], count: int = 1) -> bool:
    return (answer["type"], answer["request"], answer["status"], answer["count"]) == ("reply", request, status, count)


async def test_one_request(place: Place) -> None:
    asker, service = await pair(place, "/add")
    await asker.say("request", request=4_000_000_000, topic="/add/ints", value=[1, 2], timeout_ms=500)
    asked = await service.hear()
    number = asked.pop("request")
    assert asked == {"type": "request", "topic": "/add/ints", "timeout_ms": 500, "value": [1, 2]}
    await service.say("reply", request=number, value=3)
    assert await asker.hear() == {"type": "reply", "request": 4_000_000_000, "value": 3}
    assert place.core.requests.statistics().pending == 0


async def test_a_batch_and_a_failure(place: Place) -> None:
    asker, service = await pair(place, "/")
    await asker.say("request", request=2**32 - 2, topic="/square", values=[1, 2, 3])
    asked = await service.hear()
    assert (asked["values"], asked["timeout_ms"]) == ([1, 2, 3], 30_000)
    await service.say("reply", request=asked["request"] + 2, status=1, text="no")
    await service.say("reply", request=asked["request"], values=[1, 4])
    assert await asker.hear() == {"type": "reply", "request": 0, "status": 1, "text": "no", "count": 1}
    assert await asker.hear() == {"type": "reply", "request": 2**32 - 2, "values": [1, 4]}


@pytest.mark.parametrize(
    ("target", "count", "text"),
    [
        ({"topic": "/a"}, 2, "no service for this topic"),
        ({"topic": "/\n"}, 1, "control character"),
        ({"topic": "$hub/nothing"}, 1, "the hub has no service"),
        ({"service": "org.example.Nobody"}, 1, "no client owns this name"),
    ],
    ids=str,
)
async def test_nobody(place: Place, target: dict[str, str], count: int, text: str) -> None:
    asker = await place.client()
    await asker.say("request", request=7, values=[1] * count, **target)
    answer = await asker.hear()
    assert failed(7, Status.NO_RESPONDER, answer, count)
    assert text in answer["text"]


async def test_a_service_that_is_lost(place: Place) -> None:
    asker, service = await pair(place, "/a")
    await asker.say("request", request=5, topic="/a", values=[1, 2, 3])
    await asker.say("request", request=8, topic="/a", value=4)
    for _ in range(2):
        await service.hear()
    service.close()
    answers = sorted([await asker.hear() for _ in range(2)], key=lambda answer: answer["request"])
    assert failed(5, Status.RESPONDER_GONE, answers[0], 3)
    assert failed(8, Status.RESPONDER_GONE, answers[1])


async def test_an_asker_that_is_lost(place: Place) -> None:
    asker, service = await pair(place, "/a")
    await asker.say("request", request=5, topic="/a", value=1)
    asked = await service.hear()
    asker.close()
    await eventually(lambda: not place.core.requests.statistics().pending)
    await service.say("reply", request=asked["request"], value=1)
    assert "too late" in (await service.hear())["text"]
    assert place.core.requests.statistics().abandoned_total == 1


async def test_a_time_out(place: Place) -> None:
    asker, service = await pair(place, "/a")
    await asker.say("request", request=5, topic="/a", values=[1, 2], timeout_ms=3000)
    await asker.say("request", request=7, topic="/a", value=3, timeout_ms=20_000)
    asked = await service.hear()
    place.hub.later(2.9)
    assert await asker.barrier() == []
    place.hub.later(0.2)
    assert failed(5, Status.TIMED_OUT, await asker.hear(), 2)
    await service.say("reply", request=asked["request"], value=1)
    while (told := await service.hear())["type"] == "request":
        pass
    assert told["code"] == CloseCode.BAD_DATA


async def test_the_same_number_twice(place: Place) -> None:
    asker, service = await pair(place, "/a")
    other = await place.client()
    await asker.say("request", request=5, topic="/a", value="first")
    await asker.say("request", request=4, topic="/a", values=["x", "y"])
    await other.say("request", request=5, topic="/a", value="other")
    told = await asker.hear()
    assert (told["type"], told["code"], told.get("request", 0)) == ("error", CloseCode.BAD_DATA, 0)
    assert "pending already" in told["text"]
    for asked in [await service.hear(), await service.hear()]:
        assert asked["value"] in {"first", "other"}
        await service.say("reply", request=asked["request"], value="done")
    assert (await asker.hear())["request"] == (await other.hear())["request"] == 5
    await asker.say("request", request=5, topic="/a", value="third")
    assert (await service.hear())["value"] == "third"


async def test_replies_that_nobody_waits_for(place: Place) -> None:
    asker, service = await pair(place, "/a")
    stranger = await place.client()
    await asker.say("request", request=5, topic="/a", value=1)
    number = (await service.hear())["request"]
    await stranger.say("reply", request=number, value="mine")
    assert "no pending request has this id" in (await stranger.hear())["text"]
    await service.say("reply", request=number, value="yours")
    await service.say("reply", request=77, value=1)
    await service.say("reply", request=number, status=4, text="a status that is the hub's")
    assert (await asker.hear())["value"] == "yours"
    assert "no pending request" in (await service.hear())["text"]
    assert "status 4" in (await service.hear())["text"]


async def test_too_many_pending(start: StartPlace) -> None:
    place = await start(Settings(requests=RequestLimits(pending=3, pending_total=5)))
    asker, _ = await pair(place, "/a")
    other = await place.client()
    await asker.say("request", request=1, topic="/a", values=[1, 2, 3])
    await asker.say("request", request=4, topic="/a", value=4)
    assert failed(4, Status.OVERFLOW, await asker.hear())
    await other.say("request", request=1, topic="/a", values=[1, 2])
    await other.say("request", request=3, topic="/a", value=3)
    answer = await other.hear()
    assert failed(3, Status.OVERFLOW, answer)
    assert "at this hub" in answer["text"]


async def test_a_service_that_does_not_read(start: StartPlace) -> None:
    place = await start(settings_of(queue=QueueLimits(messages=3)))
    asker, service = await place.client(), await place.client(name="service", receive_bytes=4096)
    await service.done("serve", prefixes=["/a"])
    handler = place.hub.handler("service")
    number = 0
    while handler.writable:
        await asker.say("request", request=number, topic="/a", value="x" * 200_000)
        number += 1
        assert await asker.barrier() == []
    for number in range(100, 110):
        await asker.say("request", request=number, topic="/a", value=number)
    answers = [await asker.hear() for _ in range(7)]
    assert all(failed(number, Status.OVERFLOW, answer) for number, answer in zip(range(103, 110), answers, strict=True))


async def test_prefixes_that_cannot_be_served(start: StartPlace) -> None:
    place = await start(settings_of(services_per_client=2))
    service = await place.client()
    for prefixes, code in (
        (["$hub/names"], CloseCode.NOT_ALLOWED),
        (["/a\n"], CloseCode.BAD_DATA),
        (["/a", "/b", "/c"], CloseCode.NOT_ALLOWED),
    ):
        assert (await service.refused("serve", prefixes=prefixes))[0] == code
    assert not place.core.requests.statistics().services


async def test_order_with_messages(place: Place) -> None:
    asker, service = await place.client(), await place.client("/m")
    await service.done("serve", prefixes=["/a"])
    for number in range(2):
        await asker.publish("/m", number)
        await asker.say("request", request=number, topic="/a", value=number)
    assert [(await service.hear())["type"] for _ in range(4)] == ["messages", "request"] * 2


@except_on(**dict.fromkeys(("json", "msgpack"), "takes messages of the hub's size"))
async def test_too_big_for_the_service(place: Place) -> None:
    asker, service = await place.client(frame=2000), await place.client(frame=1000)
    await service.done("serve", prefixes=["/a"])
    await asker.say("request", request=5, topic="/a", value="x" * 1500)
    assert failed(5, Status.TOO_BIG, await asker.hear())
    await asker.say("request", request=6, topic="/a", value="x")
    await service.say("reply", request=(await service.hear())["request"], value="x" * 3000)
    assert failed(6, Status.TOO_BIG, await asker.hear())


# Names.

NAME = "org.example.Player"


async def test_claim_and_release(place: Place) -> None:
    one, two, three = [await place.client(name=name) for name in ("one", "two", "three")]
    watcher = await place.client("$hub/names/")
    assert await one.done("claim", name=NAME, labels=["b", "a"]) == {}
    owner = place.hub.handler("one").id
    appeared = {"name": NAME, "labels": ["a", "b"], "owner": owner, "hub": place.server.id.hex()}
    assert await watcher.values(1) == [("$hub/names/appeared", appeared)]
    code, text = await two.refused("claim", name=NAME)
    assert (code, text) == (CloseCode.NOT_ALLOWED, f"name {NAME} is owned by client {owner} 'one'")
    for waiting in (two, three):
        assert await waiting.done("claim", name=NAME, queue=True) == {"text": "queued"}
    await one.done("release", name=NAME)
    assert await two.hear() == {"type": "name", "name": NAME, "standing": "owned"}
    two.close()
    assert await three.hear() == {"type": "name", "name": NAME, "standing": "owned"}
    assert (await three.refused("release", name="a.b"))[1] == "name a.b is not claimed by this client; it has no owner"


async def test_lists(place: Place) -> None:
    client = await place.client()
    for name in ("a.a", "a.b", "b.a"):
        await client.done("claim", name=name)
    asked: list[tuple[Any, list[str]]] = [
        (None, ["a.a", "a.b", "b.a"]),
        ("a.", ["a.a", "a.b"]),
        ({"prefix": "a.", "after": "a.a"}, ["a.b"]),
    ]
    for value, names in asked:
        assert [one["name"] for one in (await client.ask("request", topic="$hub/names", value=value))["value"]] == names
    nonsenses: list[Any] = [7, [], {"prefix": 7}, {"name": "a.a"}]
    for nonsense in nonsenses:
        answer = await client.ask("request", topic="$hub/names", value=nonsense)
        assert answer["status"] == Status.FAILED
        assert answer["text"].startswith("expected null, a prefix, or a map")


async def test_too_many_lists_at_once(place: Place) -> None:
    client = await place.client()
    for _ in range(2):
        await client.raw.send(*(client.encode("request", request=n, topic="$hub/names", value=None) for n in range(20)))
        answers = [await client.hear() for _ in range(20)]
        assert [answer.get("status", 0) for answer in answers] == [Status.OK] * 16 + [Status.OVERFLOW] * 4


async def test_requests_to_a_name(place: Place) -> None:
    service, asker = await place.clients(2)
    await service.done("claim", name=NAME)
    await asker.say("request", request=7, service=NAME, value=1)
    asked = await service.hear()
    assert (asked["service"], asked["value"]) == (NAME, 1)
    await service.say("reply", request=asked["request"], value=2)
    assert await asker.hear() == {"type": "reply", "request": 7, "value": 2}


async def test_whoever_does_not_read_is_told_of_a_name_once(place: Place) -> None:
    one, two = await place.client(name="one"), await place.client(name="two")
    await one.done("claim", name=NAME)
    await two.done("claim", name=NAME, queue=True)
    handler = place.hub.handler("two")
    handler.pause()
    await one.done("release", name=NAME)
    for connection in place.hub.connections:
        connection.resume_writing()
    assert await two.hear() == {"type": "name", "name": NAME, "standing": "owned"}
    assert await two.barrier() == []
