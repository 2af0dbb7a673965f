"""hub.js keeps a connection: greeting, reconnecting, watching, closing. In Node and in Chromium."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.console.browser import Page
from tests.console.node import HUB_JS, Node, prepare, start_node
from tests.console.scripted_hub import ScriptedHub


async def test_a_refused_hello_leaves_the_defaults(node: Node, hub: ScriptedHub) -> None:
    hub.refusals["page"] = (1007, "no such name")
    result = await node.evaluate("const welcome = await start({name: 'page'}).ready(); return [welcome.name, log]")
    assert result[0] == "scripted"
    assert [event for event, *_ in result[1]] == ["error", "open"]


async def test_code_and_reason_of_a_close_are_told(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate("await start().ready()")
    await hub.close_connections(4008, "queue of 8192 messages full")
    events = await node.evaluate("await until(() => count('open') >= 2); return log")
    assert events[1] == ["close", 4008, "queue of 8192 messages full"]


async def test_a_hub_may_say_when_to_come_back(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate("await start({backoff: {baseMs: 8, capMs: 8, random: () => 1}}).ready()")
    reasons = [
        (1001, "the hub stops; retry after 0.1 s", 100),
        (1013, "full; retry after 0.025 s", 25),
        (4008, "full; retry after 0.1 s", 8),
        (1001, "retry after 5 s, perhaps", 8),
    ]
    for count, (code, reason, _) in enumerate(reasons, 2):
        await hub.close_connections(code, reason)
        await node.evaluate("await until(() => count('open') >= number)", number=count)
    delays = await node.evaluate("return log.filter(([event]) => event === 'reconnecting').map(([, delay]) => delay)")
    assert delays == [delay for _, _, delay in reasons]


@pytest.mark.parametrize(
    ("bounds", "parts", "delays"),
    [
        ("baseMs: 1, capMs: 8", [1, 1, 0.5, 1, 1, 0], [1, 2, 2, 8, 8, 0]),
        ("baseMs: 1000, capMs: 3600000", [0, 0, 0, 1], [0, 0, 0, 5000]),  # 5 s at most in the first minute
    ],
)
async def test_delays_double_up_to_the_cap_and_are_random_within(
    node: Node, hub: ScriptedHub, bounds: str, parts: list[float], delays: list[int]
) -> None:
    hub.refused_connections = 6
    found = await node.evaluate(
        f"""
        start({{backoff: {{{bounds}, random: () => parts.shift() ?? 0}}}});
        await until(() => count("reconnecting") === most);
        return log.filter(([event]) => event === "reconnecting").map(([, delay]) => delay);
        """,
        parts=parts,
        most=len(delays),
    )
    assert found == delays


async def test_there_is_never_more_than_one_socket(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate("""
        const sockets = [];
        globalThis.together = 0;
        class Counted extends WebSocket {
          constructor(...details) {
            super(...details);
            sockets.push(this);
            together = Math.max(together, sockets.filter(({readyState}) => readyState < 2).length);
          }
        }
        await start({WebSocket: Counted}).ready();
    """)
    for lost in range(1, 6):
        hub.drop_connections()
        await node.evaluate("await until(() => count('open') > lost)", lost=lost)
    assert await node.evaluate("return together") == 1
    assert hub.live_connections == 1


async def test_silence_is_ended_by_a_ping(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate("await start({silenceMs: 5, answerMs: 60000}).ready()")
    pings = await hub.wait_received("ping", 3)
    assert len({ping["request"] for ping in pings}) == len(pings)
    assert await node.evaluate("return [count('open'), count('close')]") == [1, 0]


async def test_a_hub_that_does_not_answer_is_given_up(node: Node, hub: ScriptedHub) -> None:
    hub.answers_pings = False
    event = await node.evaluate(
        """
        await start({silenceMs: 5, answerMs: 200}).ready();
        const sinceOpen = () => log.slice(log.findIndex(([name]) => name === "open")).map(([name]) => name);
        await until(() => sinceOpen().includes("close") && count("open") >= 2);
        return log[log.findIndex(([name]) => name === "open") + 1];
        """
    )
    assert event == ["close", 1006, "no answer from the hub for 200 ms"]


async def test_a_server_that_accepts_and_says_nothing_is_given_up(node: Node) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"ws://127.0.0.1:{silent.getsockname()[1]}"
        event = await node.evaluate(
            """
            globalThis.url = silent;
            start({answerMs: 50});
            await until(() => count("close") >= 2);
            client.close();
            return log[0];
            """,
            silent=url,
        )
    assert event == ["close", 1006, "no answer from the hub for 50 ms"]


@pytest.mark.parametrize("text", ["{", "null", "7", '{"type":"messages"}'])
async def test_nonsense_from_the_hub_is_an_error_and_no_end(node: Node, hub: ScriptedHub, text: str) -> None:
    await node.evaluate("start(); await client.subscribe('/a', collect).confirmed")
    await hub.send_text(text)
    await hub.send(type="of a later hub", field=1)
    await hub.send(type="messages", topic="/a", values=[1], field="of a later hub")
    result = await node.evaluate("await until(() => got.length >= 1); return log")
    assert [event for event, *_ in result] == ["open", "error"]
    assert result[1][1]["code"] == 1007


async def test_closing_sends_what_is_due_and_is_final(node: Node, hub: ScriptedHub) -> None:
    result = await node.evaluate("""
        await start().ready();
        const subscription = client.subscribe("/a", collect);
        await subscription.confirmed;
        const stream = client.messages("/b");
        const pending = failure(() => client.request("/q", 1));
        client.publish("/a", 1);
        const closed = client.close();
        const again = client.close() === closed;
        await closed;
        const calls = [() => client.publish("/a", 2), () => client.publish("/a", 3, {confirm: true}),
                       () => client.subscribe("/c", collect), () => client.messages("/c"), () => client.ready()];
        const failures = await Promise.all(calls.map(failure));
        return {again, failures, pending: (await pending).code, done: (await stream.next()).done, log, got,
                active: subscription.active, state: client.statistics().state};
    """)
    assert (result["again"], result["pending"]) == (True, 1000)
    assert result["failures"] == [{"name": "HubError", "code": 1000, "text": "this client is closed"}] * 5
    assert (result["done"], result["active"], result["got"], result["state"]) == (True, False, [], "closed")
    assert [event for event, *_ in result["log"]] == ["open", "close"]
    await hub.wait_until(lambda hub: hub.live_connections == 0)
    assert [message["values"] for message in hub.of_type("publish")] == [[1]]


async def test_closing_while_waiting_to_reconnect_ends_the_waiting(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate("""
        await start({backoff: {baseMs: 20, random: () => 1}}).ready();
        client.on("reconnecting", () => {
          client.publish("/a", 1);
          const outcome = failure(() => client.publish("/a", 2, {confirm: true}));
          globalThis.ending = client.close().then(() => outcome);
        });
    """)
    hub.drop_connections()
    result = await node.evaluate("""
        await until(() => count("reconnecting") >= 1);
        const outcome = await ending;
        await new Promise((resolve) => setTimeout(resolve, 60)); // past the delay: the attempt would have been made
        return [outcome.code, client.statistics().discardedMessages, log.map(([event]) => event)];
    """)
    assert result == [1000, 2, ["open", "close", "reconnecting", "close"]]
    await hub.wait_until(lambda hub: hub.live_connections == 0)
    await hub.wait_connections(1)


@pytest.mark.parametrize(
    ("form", "path"), [("http://{}", "/v1/hub"), ("ws://{}/", "/v1/hub"), ("ws://{}/v1/hub#part", "/v1/hub")]
)
async def test_a_url_may_be_short(node: Node, hub: ScriptedHub, form: str, path: str) -> None:
    address = form.format(f"127.0.0.1:{hub.port}")
    await node.evaluate("globalThis.url = address; await start().ready()", address=address)
    assert hub.url.endswith(path)
    assert hub.live_connections == 1


async def test_a_url_of_something_else_is_refused(node: Node) -> None:
    failures = await node.evaluate("""
        return Promise.all(["ftp://h/", "ws://"].map((address) => failure(() => connect(address))));
    """)
    assert [failure["name"] for failure in failures] == ["TypeError", "TypeError"]


@pytest.fixture
async def own_node(node_start: list[str], hub: ScriptedHub) -> AsyncIterator[Node]:
    async with start_node(node_start) as node:
        await prepare(node, HUB_JS.as_uri(), hub.url)
        yield node


async def test_without_any_websocket_the_error_says_what_to_do(own_node: Node) -> None:
    result = await own_node.evaluate("delete globalThis.WebSocket; return failure(() => connect(url))")
    text = "no WebSocket here: Node 22 has one; else pass one as the option WebSocket"
    assert result == {"name": "TypeError", "code": None, "text": text}


async def test_a_closed_client_does_not_keep_node_alive(own_node: Node) -> None:
    await own_node.evaluate("await start({name: 'short'}).ready(); await client.close()")
    assert await own_node.wait() == 0


@pytest.mark.parametrize(
    "event", ["dispatchEvent(new Event('online'))", "document.dispatchEvent(new Event('visibilitychange'))"]
)
async def test_a_network_or_a_reader_that_is_back_ends_the_waiting(
    blank_page: Page, hub: ScriptedHub, event: str
) -> None:
    hub.refused_connections = 3
    delays = await blank_page.evaluate(f"""
        const parts = [0, 0, 1, 0.00001];
        start({{backoff: {{baseMs: 900000, capMs: 3600000, random: () => parts.shift() ?? 0}}}});
        await until(() => count("reconnecting") >= 3);
        {event};
        await client.ready();
        return log.filter(([name]) => name === "reconnecting").map(([, delay]) => delay);
    """)
    assert delays == [0, 0, 900_000, pytest.approx(9)]
    assert hub.live_connections == 1


async def test_a_reader_that_is_back_makes_an_open_client_ask(blank_page: Page, hub: ScriptedHub) -> None:
    await blank_page.evaluate("await start().ready(); document.dispatchEvent(new Event('visibilitychange'))")
    assert len(await hub.wait_received("ping")) == 1


SECRET = "hub_c2VjcmV0"

TOKENS = f"""
    globalThis.asked = 0;
    globalThis.numbered = () => `{SECRET}${{asked += 1}}`;
"""


def hellos(hub: ScriptedHub) -> list[dict[str, Any]]:
    return [message for _, message in hub.received if message["type"] == "hello"]


async def test_a_text_is_shown_first(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate(
        "start({token, narrow: true}); client.subscribe('/a', collect); await client.ready()", token=SECRET
    )
    hub.drop_connections()
    await node.evaluate("await until(() => count('open') >= 2)")
    assert hellos(hub) == [{"type": "hello", "token": SECRET, "narrow": True}] * 2
    for number in (1, 2):
        assert next(message for on, message in hub.received if on == number)["type"] == "hello"


async def test_no_token(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate("await start({token: ''}).ready()")
    assert hub.received == []


async def test_no_token_for_a_hub_with_users(node: Node, hub: ScriptedHub) -> None:
    """A stranger says hello all the same: what stands before it must be small, and subscriptions may be many."""
    hub.anonymous = "reader"
    await node.evaluate("start({}).subscribe('/a', collect); await client.ready()")
    await hub.wait_received("subscribe")  # it may still be on its way: the hub answers the hello first
    assert [message["type"] for _, message in hub.received][:2] == ["hello", "subscribe"]


@pytest.mark.parametrize("function", ["numbered", "async () => numbered()"])
async def test_a_function_is_asked_for_each_connection(node: Node, hub: ScriptedHub, function: str) -> None:
    await node.evaluate(f"{TOKENS} start({{token: {function}}}); client.publish('/a', 1); await client.ready()")
    await hub.wait_received("publish")  # what is on its way to a connection that is dropped is lost
    for count in (2, 3):
        hub.drop_connections()
        await node.evaluate("await until(() => count('open') >= number)", number=count)
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
async def test_a_function_that_fails(node: Node, hub: ScriptedHub, function: str, name: str, answer_ms: int) -> None:
    await node.evaluate(f"""
        {TOKENS}
        start({{token: () => asked++ ? "{SECRET}" : ({function})(), answerMs: {answer_ms}, backoff: {{baseMs: 1}}}});
        await client.ready();
    """)
    events = await node.evaluate("return log")
    assert [event for event, *_ in events] == ["error", "reconnecting", "open"]
    told = events[0][1]
    assert told["code"] == 4401
    assert told["text"] == f"the function for the token has failed: {name}"
    assert len(hellos(hub)) == 1


async def test_closed_while_a_token_is_asked_for(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate("""
        start({token: () => new Promise((resolve) => { globalThis.give = resolve; })});
        await client.close();
        give("late");
        await new Promise((resolve) => setTimeout(resolve, 0));
    """)
    assert hub.live_connections == 0
    assert hub.received == []


async def test_a_renewal(node: Node, hub: ScriptedHub) -> None:
    hub.until = 0.01
    await node.evaluate(f"""
        {TOKENS}
        start({{token: numbered}});
        client.subscribe("/a", collect);
        await until(() => count("open") > 0);
    """)
    renewals = (await hub.wait_received("token", 3))[:3]
    assert [each["token"] for each in renewals] == [f"{SECRET}{number}" for number in (2, 3, 4)]
    assert len({each["request"] for each in renewals}) == 3
    assert await node.evaluate("return count('close') + count('error')") == 0


async def test_a_text_is_not_renewed(node: Node, hub: ScriptedHub) -> None:
    hub.until = 0.001
    await node.evaluate(
        "await start({token}).ready(); await new Promise((resolve) => setTimeout(resolve, 20))", token=SECRET
    )
    assert [message["type"] for _, message in hub.received] == ["hello"]


async def test_a_renewal_that_is_refused(node: Node, hub: ScriptedHub) -> None:
    hub.until = 0.01
    hub.refusals[f"{SECRET}2"] = (4401, "not recognised")
    await node.evaluate(f"{TOKENS} start({{token: numbered}}); await until(() => count('error') >= 1)")
    error = (await node.evaluate("return log.filter(([event]) => event === 'error')"))[0][1]
    assert (error["code"], error["text"]) == (4401, "not recognised")
    assert await node.evaluate("return client.statistics().state") == "open"


@pytest.mark.parametrize("code", [4401, 4403])
async def test_a_hub_that_does_not_let_it_in(node: Node, hub: ScriptedHub, code: int) -> None:
    await node.evaluate("await start({token}).ready()", token=SECRET)
    await hub.close_connections(code, "not you")
    await node.evaluate("await until(() => count('error') >= 1)")
    result = await node.evaluate("""
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


async def test_one_more_attempt_with_a_fresh_token(node: Node, hub: ScriptedHub) -> None:
    hub.closes_hello = (4401, "not recognised")
    await node.evaluate(f"{TOKENS} start({{token: numbered}}); await until(() => count('error') >= 1)")
    assert [hello["token"] for hello in hellos(hub)] == [f"{SECRET}1", f"{SECRET}2"]
    assert await node.evaluate("return client.statistics().state") == "closed"


async def test_a_token_that_was_taken_counts_anew(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate(f"{TOKENS} await start({{token: numbered}}).ready()")
    for count in (2, 3, 4):
        await hub.close_connections(4401, "it has ended")
        await node.evaluate("await until(() => count('open') >= number)", number=count)
    assert len(hellos(hub)) == 4
