"""What happens when a journal has no room, and when it has some again: all that was promised, in one scene.

```
publish, confirm ─ the disk is full ─▶ errors that say why, live delivery, 503 ─ room ─▶ 200, confirmations, no gap
```
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from hub.errors import CloseCode, RejectedError
from peers.client import MessageStream, QueueWish
from peers.client.client import Client
from tests.faults.full_disks import ScarceDisk
from tests.faults.hubs import DEADLINE_S, RunningHub, running_hub
from tests.faults.ledger import NOWHERE, Ledger, topic_of, value_of
from tests.faults.loads import frames_of

__all__ = ["Shortage", "Traffic", "go_through", "wait_ready"]

_ROOMY = QueueWish(1_000_000, 256 * 1024 * 1024)
_NAME = "some"
_QUERY = "query"
_ROUND_MESSAGES = 500
_EACH_CONFIRMED = 5
"""One of so many messages is published with confirmation."""

_BATCH_MESSAGES = 1_000


class Shortage(NamedTuple):
    """What one has cost."""

    recorded: int
    lost: int
    """Messages that are not recorded."""
    back_s: float
    """From when there was room until the hub was ready."""


class Traffic:
    """A publisher whose messages are confirmed now and then, and a subscriber who must get all of them.

    Args:
        client: Of the publisher.
        ledger: Gets what is sent and confirmed.
    """

    def __init__(self, client: Client, ledger: Ledger) -> None:
        self._client = client
        self._ledger = ledger
        self.refusals: list[RejectedError] = []
        """Of the last round."""

    async def round(self) -> None:
        """Publish some messages, and hear what has become of those that were to be confirmed."""
        ledger, client = self._ledger, self._client
        numbers = range(ledger.sent[_NAME], ledger.sent[_NAME] + _ROUND_MESSAGES)
        ledger.sent[_NAME] += _ROUND_MESSAGES
        asked: dict[int, asyncio.Task[int]] = {}
        for number in numbers:
            topic, value = topic_of(_NAME, number), value_of(_NAME, number)
            if number % _EACH_CONFIRMED:
                await client.publish(topic, value)
            else:
                asked[number] = asyncio.create_task(client.publish_confirmed(topic, value))
                await asyncio.sleep(0)  # so that it is published in its turn
        self.refusals = []
        for number, task in asked.items():
            try:
                ledger.confirmed[_NAME, number] = await task
            except RejectedError as error:
                self.refusals.append(error)

    async def commit_in_vain(self) -> RejectedError:
        """Try to have a batch recorded; return why it was not."""
        try:
            await self.commit()
        except RejectedError as error:
            return error
        raise AssertionError("the batch was committed")

    async def commit(self) -> None:
        """Have a batch recorded."""
        self._ledger.sent[_QUERY] = _BATCH_MESSAGES
        await self._client.stage("t", 0, frames_of(_QUERY, range(_BATCH_MESSAGES)))
        committed = await self._client.commit("t", [0], query=_QUERY, batch=0)
        assert (committed.messages, committed.again) == (_BATCH_MESSAGES, False)
        self._ledger.confirmed[_QUERY, 0] = committed.first


async def _received(stream: MessageStream, name: str, numbers: range) -> None:
    """See that a subscriber gets exactly these, next and in order."""
    async with asyncio.timeout(DEADLINE_S):
        for number in numbers:
            message = await anext(stream)
            assert (message.topic, message.value) == (topic_of(name, number), value_of(name, number))


async def _announced(stream: MessageStream, state: str) -> Any:
    """Return what the hub says of its journal next."""
    async with asyncio.timeout(DEADLINE_S):
        message = await anext(stream)
    assert message.value["state"] == state
    return message.value


async def wait_ready(hub: RunningHub) -> None:
    """Wait until the hub says that it is."""
    async with asyncio.timeout(DEADLINE_S):
        while (await hub.get("/readyz"))[0] != HTTPStatus.OK:
            pass


class _Scene:
    """A hub on a scarce disk, with who publishes, who subscribes and who keeps the books."""

    def __init__(self, disk: ScarceDisk) -> None:
        self.disk = disk
        self.ledger = Ledger(may_lose=True)
        self.hub: RunningHub
        self.traffic: Traffic
        self._reader: Client
        self._live: MessageStream
        self._news: MessageStream

    async def open(self, stack: AsyncExitStack) -> None:
        """Start everybody."""
        enter = stack.enter_async_context
        self.hub = await enter(running_hub(self.disk.journal, "--journal-compression", "none", wrap=self.disk.wrap))
        self.traffic = Traffic(await enter(self.hub.connect()), self.ledger)
        self._reader = await enter(self.hub.connect(_ROOMY))
        self._live = await enter(self._reader.subscribe("/load/", buffer_bytes=_ROOMY.bytes))
        self._news = await enter(self._reader.subscribe("$hub/journal"))

    async def fill(self) -> None:
        """Publish until somebody is told that there is no room."""
        await self.traffic.round()
        assert not self.traffic.refusals
        assert (await self.hub.get("/readyz"))[0] == HTTPStatus.OK
        await self.disk.fill()
        async with asyncio.timeout(DEADLINE_S):
            while not self.traffic.refusals:
                await self.traffic.round()

    async def check_refusals(self) -> None:
        """See that everybody is told why."""
        reason = self.disk.reason
        await self.traffic.round()
        assert len(self.traffic.refusals) == _ROUND_MESSAGES // _EACH_CONFIRMED
        for refusal in self.traffic.refusals:
            assert refusal.code == CloseCode.JOURNAL_FAILED
            assert reason in refusal.text
        status, text = await self.hub.get("/readyz")
        assert status == HTTPStatus.SERVICE_UNAVAILABLE
        assert reason in text
        assert reason in (await _announced(self._news, "failed"))["reason"]
        refusal = await self.traffic.commit_in_vain()
        assert reason in refusal.text

    async def check_service(self) -> None:
        """See that messages are delivered, counted where they are missing, and history is read."""
        sent = self.ledger.sent[_NAME]
        await _received(self._live, _NAME, range(sent))
        head = (await self._reader.journal()).head
        assert await self.hub.counter("hub_journal_lost_total") == sent - head
        assert len([record async for record in self._reader.read()]) == head

    async def make_room(self) -> float:
        """Give it room; return how long it took until the hub was ready, s."""
        await self.disk.make_room(self.hub.process.pid)
        began_s = time.perf_counter()
        await wait_ready(self.hub)
        return time.perf_counter() - began_s

    async def check_recovery(self) -> int:
        """See that all is as before; return how many messages were lost."""
        sent = self.ledger.sent[_NAME]
        lost = await self.hub.counter("hub_journal_lost_total")
        recovered = await _announced(self._news, "recovered")
        assert (recovered["lost"], recovered["offset"]) == (lost, sent - lost)
        await self.traffic.round()
        assert not self.traffic.refusals
        await self.traffic.commit()
        await _received(self._live, _NAME, range(sent, sent + _ROUND_MESSAGES))
        await _received(self._live, _QUERY, range(_BATCH_MESSAGES))
        assert await self.hub.counter("hub_journal_lost_total") == lost
        return lost

    def check_file(self, path: Path, lost: int) -> None:
        """See that exactly those are missing, and that what was confirmed is where that was said."""
        ledger = self.ledger
        ledger.read(path)
        ledger.check_confirmed()
        assert ledger.offsets[_NAME].count(NOWHERE) == lost
        assert ledger.position == ledger.sent[_NAME] - lost + _BATCH_MESSAGES


async def go_through(disk: ScarceDisk, folder: Path) -> Shortage:
    """Play all of it.

    Args:
        disk: With room.
        folder: For what is looked at afterwards.

    Raises:
        AssertionError: Something is not as promised.
    """
    scene = _Scene(disk)
    async with AsyncExitStack() as stack:
        await scene.open(stack)
        await scene.fill()
        await scene.check_refusals()
        await scene.check_service()
        back_s = await scene.make_room()
        lost = await scene.check_recovery()
        await scene.hub.stop()
        scene.check_file(disk.fetch(folder), lost)
    return Shortage(scene.ledger.position, lost, back_s)
