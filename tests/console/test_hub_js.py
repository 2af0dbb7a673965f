"""hub.js keeps a connection: greeting, reconnecting, watching, closing. In Node and in Chromium."""

from __future__ import annotations

import socket

import pytest

from tests.console.browser import Page
from tests.console.engine import Engine
from tests.console.node import Node
from tests.console.scripted_hub import ScriptedHub


async def test_ready_gives_the_hubs_greeting(engine: Engine, hub: ScriptedHub) -> None:
    welcome = await engine.evaluate("return start().ready()")
    assert (welcome["name"], welcome["hub"], welcome["queue"]["overflow"]) == (
        "scripted",
        "0123456789abcdef" * 2,
        "drop-oldest",
    )
    assert hub.received == []


async def test_a_refused_hello_leaves_the_defaults(engine: Engine, hub: ScriptedHub) -> None:
    hub.refusals["page"] = (1007, "no such name")
    result = await engine.evaluate("const welcome = await start({name: 'page'}).ready(); return [welcome.name, log]")
    assert result[0] == "scripted"
    assert [event for event, *_ in result[1]] == ["error", "open"]


async def test_a_lost_connection_is_made_again_with_its_subscriptions(engine: Engine, hub: ScriptedHub) -> None:
    await engine.evaluate("""
        await start().ready();
        const subscriptions = ["/a", "/b", "/a"].map((prefix) => client.subscribe(prefix, collect));
        await Promise.all(subscriptions.map(({confirmed}) => confirmed));
    """)
    hub.drop_connections()
    await engine.evaluate("""
        await until(() => count("open") >= 2);
        client.publish("/b", 1);
        await until(() => got.length >= 1);
    """)
    events = await engine.evaluate("return log")
    assert [event for event, *_ in events] == ["open", "close", "reconnecting", "open"]
    assert events[1][1] == 1006
    again = [message for number, message in hub.received if number == 2 and message["type"] == "subscribe"]
    assert [sorted(message["prefixes"]) for message in again] == [["/a", "/b"]]
    assert hub.live_connections == 1


async def test_code_and_reason_of_a_close_are_told(engine: Engine, hub: ScriptedHub) -> None:
    await engine.evaluate("await start().ready()")
    await hub.close_connections(4008, "queue of 8192 messages full")
    events = await engine.evaluate("await until(() => count('open') >= 2); return log")
    assert events[1] == ["close", 4008, "queue of 8192 messages full"]


async def test_a_hub_may_say_when_to_come_back(engine: Engine, hub: ScriptedHub) -> None:
    await engine.evaluate("await start({backoff: {baseMs: 8, capMs: 8, random: () => 1}}).ready()")
    reasons = [
        (1001, "the hub stops; retry after 0.1 s", 100),
        (1013, "full; retry after 0.025 s", 25),
        (4008, "full; retry after 0.1 s", 8),
        (1001, "retry after 5 s, perhaps", 8),
    ]
    for count, (code, reason, _) in enumerate(reasons, 2):
        await hub.close_connections(code, reason)
        await engine.evaluate("await until(() => count('open') >= number)", number=count)
    delays = await engine.evaluate("return log.filter(([event]) => event === 'reconnecting').map(([, delay]) => delay)")
    assert delays == [delay for _, _, delay in reasons]


async def test_delays_double_up_to_the_cap_and_are_random_within(engine: Engine, hub: ScriptedHub) -> None:
    hub.refused_connections = 6
    delays = await engine.evaluate("""
        const parts = [1, 1, 0.5, 1, 1, 0];
        start({backoff: {baseMs: 1, capMs: 8, random: () => parts.shift() ?? 0}});
        await client.ready();
        return log.filter(([event]) => event === "reconnecting").map(([, delay]) => delay);
    """)
    assert delays == [1, 2, 2, 8, 8, 0]


async def test_a_client_waits_for_five_seconds_at_most_in_the_first_minute(engine: Engine, hub: ScriptedHub) -> None:
    """However large its cap is: a hub that restarts a few times must not find it gone."""
    hub.refused_connections = 6
    delays = await engine.evaluate("""
        const parts = [0, 0, 0, 1];
        start({backoff: {baseMs: 1000, capMs: 3600000, random: () => parts.shift() ?? 0}});
        await until(() => count("reconnecting") === 4);
        return log.filter(([event]) => event === "reconnecting").map(([, delay]) => delay);
    """)
    assert delays == [0, 0, 0, 5000]


async def test_there_is_never_more_than_one_socket(engine: Engine, hub: ScriptedHub) -> None:
    await engine.evaluate("""
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
        await engine.evaluate("await until(() => count('open') > lost)", lost=lost)
    assert await engine.evaluate("return together") == 1
    assert hub.live_connections == 1


async def test_silence_is_ended_by_a_ping(engine: Engine, hub: ScriptedHub) -> None:
    await engine.evaluate("await start({silenceMs: 5, answerMs: 60000}).ready()")
    pings = await hub.wait_received("ping", 3)
    assert len({ping["request"] for ping in pings}) == len(pings)
    assert await engine.evaluate("return [count('open'), count('close')]") == [1, 0]


async def test_a_hub_that_does_not_answer_is_given_up(engine: Engine, hub: ScriptedHub) -> None:
    hub.answers_pings = False
    event = await engine.evaluate(
        """
        await start({silenceMs: 5, answerMs: 200}).ready();
        const sinceOpen = () => log.slice(log.findIndex(([name]) => name === "open")).map(([name]) => name);
        await until(() => sinceOpen().includes("close") && count("open") >= 2);
        return log[log.findIndex(([name]) => name === "open") + 1];
        """
    )
    assert event == ["close", 1006, "no answer from the hub for 200 ms"]


async def test_a_server_that_accepts_and_says_nothing_is_given_up(engine: Engine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"ws://127.0.0.1:{silent.getsockname()[1]}"
        event = await engine.evaluate(
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
async def test_nonsense_from_the_hub_is_an_error_and_no_end(engine: Engine, hub: ScriptedHub, text: str) -> None:
    await engine.evaluate("start(); await client.subscribe('/a', collect).confirmed")
    await hub.send_text(text)
    await hub.send(type="of a later hub", field=1)
    await hub.send(type="messages", topic="/a", values=[1], field="of a later hub")
    result = await engine.evaluate("await until(() => got.length >= 1); return log")
    assert [event for event, *_ in result] == ["open", "error"]
    assert result[1][1]["code"] == 1007


async def test_closing_sends_what_is_due_and_is_final(engine: Engine, hub: ScriptedHub) -> None:
    result = await engine.evaluate("""
        await start().ready();
        const subscription = client.subscribe("/a", collect);
        await subscription.confirmed;
        const stream = client.messages("/b");
        client.publish("/a", 1);
        const closed = client.close();
        const again = client.close() === closed;
        await closed;
        const calls = [() => client.publish("/a", 2), () => client.publish("/a", 3, {confirm: true}),
                       () => client.subscribe("/c", collect), () => client.messages("/c"), () => client.ready()];
        const failures = await Promise.all(calls.map(failure));
        return {again, failures, done: (await stream.next()).done, active: subscription.active, log, got,
                state: client.statistics().state};
    """)
    assert result["again"] is True
    assert result["failures"] == [{"name": "HubError", "code": 1000, "text": "this client is closed"}] * 5
    assert (result["done"], result["active"], result["got"], result["state"]) == (True, False, [], "closed")
    assert [event for event, *_ in result["log"]] == ["open", "close"]
    await hub.wait_until(lambda hub: hub.live_connections == 0)
    assert [message["values"] for message in hub.of_type("publish")] == [[1]]


async def test_closing_while_waiting_to_reconnect_ends_the_waiting(engine: Engine, hub: ScriptedHub) -> None:
    await engine.evaluate("""
        await start({backoff: {baseMs: 20, random: () => 1}}).ready();
        client.on("reconnecting", () => {
          client.publish("/a", 1);
          const outcome = failure(() => client.publish("/a", 2, {confirm: true}));
          globalThis.ending = client.close().then(() => outcome);
        });
    """)
    hub.drop_connections()
    result = await engine.evaluate("""
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
async def test_a_url_may_be_short(engine: Engine, hub: ScriptedHub, form: str, path: str) -> None:
    address = form.format(f"127.0.0.1:{hub.port}")
    await engine.evaluate("globalThis.url = address; await start().ready()", address=address)
    assert hub.url.endswith(path)
    assert hub.live_connections == 1


async def test_a_url_of_something_else_is_refused(engine: Engine) -> None:
    failures = await engine.evaluate("""
        return Promise.all(["ftp://h/", "ws://"].map((address) => failure(() => connect(address))));
    """)
    assert [failure["name"] for failure in failures] == ["TypeError", "TypeError"]


async def test_without_any_websocket_the_error_says_what_to_do(node: Node) -> None:
    result = await node.evaluate("""
        delete globalThis.WebSocket;
        return failure(() => connect(url));
    """)
    assert result == {
        "name": "TypeError",
        "code": None,
        "text": "no WebSocket here: Node 22 has one; else pass one as the option WebSocket",
    }


async def test_a_closed_client_does_not_keep_node_alive(node: Node) -> None:
    await node.evaluate("await start({name: 'short'}).ready(); await client.close()")
    assert await node.wait() == 0


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
