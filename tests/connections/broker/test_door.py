"""Who comes in as a Zeek: those that have a role by the settings, or are users by their certificates."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from hub.policy.policy import Action
from hub.settings.sections import ZeekSettings
from hub.settings.settings import Settings
from peers.values import encode
from tests.connections.broker.conftest import StartHub
from tests.connections.broker.scripted import Data
from tests.hubs.eventually import eventually
from tests.hubs.known_tokens import KnownTokens

NAME = "11111111-1111-4111-8111-111111111111"


async def test_the_role_of_all_zeeks(start_hub: StartHub) -> None:
    hub = await start_hub(settings=Settings(zeek=ZeekSettings(role="zeeks")))
    known = KnownTokens(hub)
    far = await hub.zeek("")
    rights = hub.handler(NAME).rights
    assert rights is not None
    assert rights.user.name == "zeek"
    assert rights.may(Action.BRING, "/zeek/dns")
    assert not rights.may(Action.BRING, "/control")
    reader = await hub.client("", token=known.token("alice"))
    far.publish("/control/x", encode("not granted"))
    far.publish("/zeek/dns", encode("granted"))
    frame = await reader.frame()
    assert frame.key == b"/zeek/dns"
    await reader.publish("/zeek/back", 1)
    await reader.publish("/control/x", 2)
    assert await far.data(1) == [Data("/control/x", encode(2))]


@pytest.mark.parametrize("delay_s", [0.0, 2.0])
async def test_a_zeek_that_is_nobody(start_hub: StartHub, delay_s: float) -> None:
    hub = await start_hub()
    known = KnownTokens(hub)
    known.answer_after(delay_s)
    peering = asyncio.create_task(hub.zeek("/a"))
    await eventually(lambda: known.failures == 1)
    hub.later(delay_s + 1)
    await eventually(lambda: hub.zeeks[0].conversation.session.closed)
    assert hub.node.core.handlers == {}
    assert len(hub.peerings.registry) == 0
    peering.cancel()
    with contextlib.suppress(asyncio.CancelledError, AssertionError, EOFError, asyncio.IncompleteReadError):
        await peering


async def test_a_zeek_of_a_hub_without_users(start_hub: StartHub) -> None:
    hub = await start_hub(settings=Settings(zeek=ZeekSettings(role="zeeks")))
    await hub.zeek("/a")
    assert hub.handler(NAME).rights is None


async def test_a_zeek_that_this_hub_dials(start_hub: StartHub) -> None:
    far = await start_hub(hub_id=bytes.fromhex("22222222222242228222222222222222"))
    near = await start_hub()
    KnownTokens(near)
    near.dial_zeek(f"zeek+tcp://127.0.0.1:{far.zeek_endpoint.port}")
    await eventually(lambda: len(near.peerings.registry) == 1 and len(near.node.core.handlers) == 1)
    (handler,) = near.node.core.handlers.values()
    assert handler.rights is None
