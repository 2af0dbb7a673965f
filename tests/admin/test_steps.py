"""Answers that are worked out in steps, some of which wait for others."""

from __future__ import annotations

import pytest

from hub.errors import UsageError
from hub.requests.hub_services import Later
from peers.admin.steps import Work, in_steps
from tests.hubs.eventually import eventually
from tests.hubs.hub import Hub


async def test_work_that_waits(hub: Hub) -> None:
    asked = Later()

    def work() -> Work[int]:
        yield None
        hub.node.after_turn(lambda: asked.give(1))
        first = yield asked
        yield None
        return int(first) + 1

    told: list[int] = []
    answer = in_steps(hub.node, work())
    answer.then(lambda: told.append(answer.value))
    await eventually(lambda: told == [2])


@pytest.mark.parametrize("goes_on", [True, False])
async def test_work_that_waits_in_vain(hub: Hub, *, goes_on: bool) -> None:
    asked = Later()

    def work() -> Work[str]:
        hub.node.after_turn(lambda: asked.fail(UsageError("nobody is there")))
        try:
            yield asked
        except UsageError as error:
            if not goes_on:
                raise
            return f"but: {error}"
        return ""

    told: list[str] = []
    answer = in_steps(hub.node, work())
    answer.then(lambda: told.append(str(answer.error or answer.value)))
    await eventually(lambda: told == ["but: nobody is there" if goes_on else "nobody is there"])
