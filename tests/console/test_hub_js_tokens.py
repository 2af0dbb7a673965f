"""hub.js shows who it is: at each connection, and again before that ends. In Node and in Chromium."""

from __future__ import annotations

from typing import Any

import pytest

from tests.console.engine import Engine
from tests.console.scripted_hub import ScriptedHub

SECRET = "hub_c2VjcmV0"

TOKENS = f"""
    globalThis.asked = 0;
    globalThis.numbered = () => `{SECRET}${{asked += 1}}`;
"""


def hellos(hub: ScriptedHub) -> list[dict[str, Any]]:
    return [message for _, message in hub.received if message["type"] == "hello"]


async def test_a_text_is_shown_first(engine: Engine, hub: ScriptedHub) -> None:
    await engine.evaluate(
        "start({token, narrow: true}); client.subscribe('/a', collect); await client.ready()", token=SECRET
    )
    hub.drop_connections()
    await engine.evaluate("await until(() => count('open') >= 2)")
    assert hellos(hub) == [{"type": "hello", "token": SECRET, "narrow": True}] * 2
    for number in (1, 2):
        assert next(message for on, message in hub.received if on == number)["type"] == "hello"


async def test_no_token(engine: Engine, hub: ScriptedHub) -> None:
    await engine.evaluate("await start({token: ''}).ready()")
    assert hub.received == []


async def test_no_token_for_a_hub_with_users(engine: Engine, hub: ScriptedHub) -> None:
    """A stranger says hello all the same: what stands before it must be small, and subscriptions may be many."""
    hub.strangers = "reader"
    await engine.evaluate("start({}).subscribe('/a', collect); await client.ready()")
    assert [message["type"] for _, message in hub.received][:2] == ["hello", "subscribe"]


@pytest.mark.parametrize("function", ["numbered", "async () => numbered()"])
async def test_a_function_is_asked_for_each_connection(engine: Engine, hub: ScriptedHub, function: str) -> None:
    await engine.evaluate(f"{TOKENS} start({{token: {function}}}); client.publish('/a', 1); await client.ready()")
    await hub.wait_received("publish")  # what is on its way to a connection that is dropped is lost
    for count in (2, 3):
        hub.drop_connections()
        await engine.evaluate("await until(() => count('open') >= number)", number=count)
    assert [hello["token"] for hello in hellos(hub)] == [f"{SECRET}{number}" for number in (1, 2, 3)]
    assert [message["topic"] for _, message in hub.received if message["type"] == "publish"] == ["/a"]


@pytest.mark.parametrize(
    ("function", "name", "answer_ms"),
    [
        (f"() => {{ throw new RangeError('{SECRET}') }}", "RangeError", 60_000),
        (f"async () => {{ throw '{SECRET}' }}", "string", 60_000),
        ("() => 7", "TypeError", 60_000),
        ("() => new Promise(() => {})", "Error", 2_000),  # the next attempt must be through in this time, too
    ],
)
async def test_a_function_that_fails(
    engine: Engine, hub: ScriptedHub, function: str, name: str, answer_ms: int
) -> None:
    await engine.evaluate(f"""
        {TOKENS}
        start({{token: () => asked++ ? "{SECRET}" : ({function})(), answerMs: {answer_ms}, backoff: {{baseMs: 1}}}});
        await client.ready();
    """)
    events = await engine.evaluate("return log")
    assert [event for event, *_ in events] == ["error", "reconnecting", "open"]
    told = events[0][1]
    assert told["code"] == 4401
    assert told["text"] == f"the function for the token has failed: {name}"
    assert len(hellos(hub)) == 1


async def test_closed_while_a_token_is_asked_for(engine: Engine, hub: ScriptedHub) -> None:
    await engine.evaluate("""
        start({token: () => new Promise((resolve) => { globalThis.give = resolve; })});
        await client.close();
        give("late");
        await new Promise((resolve) => setTimeout(resolve, 0));
    """)
    assert hub.live_connections == 0
    assert hub.received == []


async def test_a_renewal(engine: Engine, hub: ScriptedHub) -> None:
    hub.until = 0.01
    await engine.evaluate(f"""
        {TOKENS}
        start({{token: numbered}});
        client.subscribe("/a", collect);
        await until(() => count("open") > 0);
    """)
    renewals = (await hub.wait_received("token", 3))[:3]
    assert [each["token"] for each in renewals] == [f"{SECRET}{number}" for number in (2, 3, 4)]
    assert len({each["request"] for each in renewals}) == 3
    assert await engine.evaluate("return count('close') + count('error')") == 0


async def test_a_text_is_not_renewed(engine: Engine, hub: ScriptedHub) -> None:
    hub.until = 0.001
    await engine.evaluate(
        "await start({token}).ready(); await new Promise((resolve) => setTimeout(resolve, 20))", token=SECRET
    )
    assert [message["type"] for _, message in hub.received] == ["hello"]


async def test_a_renewal_that_is_refused(engine: Engine, hub: ScriptedHub) -> None:
    hub.until = 0.01
    hub.refusals[f"{SECRET}2"] = (4401, "not recognised")
    await engine.evaluate(f"{TOKENS} start({{token: numbered}}); await until(() => count('error') >= 1)")
    error = (await engine.evaluate("return log.filter(([event]) => event === 'error')"))[0][1]
    assert (error["code"], error["text"]) == (4401, "not recognised")
    assert await engine.evaluate("return client.statistics().state") == "open"


@pytest.mark.parametrize("code", [4401, 4403])
async def test_a_hub_that_does_not_let_it_in(engine: Engine, hub: ScriptedHub, code: int) -> None:
    await engine.evaluate("await start({token}).ready()", token=SECRET)
    await hub.close_connections(code, "not you")
    await engine.evaluate("await until(() => count('error') >= 1)")
    result = await engine.evaluate("""
        return [
          client.statistics().state,
          count("reconnecting"),
          await failure(() => client.ready()),
          await failure(() => client.publish("/a", 1)),
          await client.close(),
        ];
    """)
    assert result[:2] == ["closed", 0]
    for told in result[2:4]:
        assert (told["code"], told["text"]) == (code, "not you")
    assert len(hellos(hub)) == 1


async def test_one_more_attempt_with_a_fresh_token(engine: Engine, hub: ScriptedHub) -> None:
    hub.closes_hello = (4401, "not recognised")
    await engine.evaluate(f"{TOKENS} start({{token: numbered}}); await until(() => count('error') >= 1)")
    assert [hello["token"] for hello in hellos(hub)] == [f"{SECRET}1", f"{SECRET}2"]
    assert await engine.evaluate("return client.statistics().state") == "closed"


async def test_a_token_that_was_taken_counts_anew(engine: Engine, hub: ScriptedHub) -> None:
    await engine.evaluate(f"{TOKENS} await start({{token: numbered}}).ready()")
    for count in (2, 3, 4):
        await hub.close_connections(4401, "it has ended")
        await engine.evaluate("await until(() => count('open') >= number)", number=count)
    assert len(hellos(hub)) == 4
