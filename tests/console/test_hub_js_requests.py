"""hub.js asks and serves: with the real hub, and with one that misbehaves."""

from __future__ import annotations

from typing import Any

import msgspec

from peers.client import RequestFailedError, connect
from tests.console.node import Node, use
from tests.console.scripted_hub import ScriptedHub
from tests.hubs.hub import Hub


async def test_with_a_client_in_python(node: Node, recording: Hub) -> None:
    await use(node, recording.url)
    await node.evaluate("""
        start();
        const echo = client.serve("/js/echo", ({value}) => value);
        await echo.confirmed;
    """)
    async with connect(recording.url) as client, client.serve("/py/double", lambda request: request.value * 2):
        assert await node.evaluate('return client.request("/py/double", 21)') == 42
        assert await client.request_many("/js/echo", [1, "two", b"\0\1"]) == [1, "two", "AAE="]
        answers: list[Any] = await client.request_many(
            "/js/echo", [1, msgspec.msgpack.Ext(99, b""), 3], return_exceptions=True
        )
    assert (answers[0], answers[2]) == (1, 3)
    assert isinstance(answers[1], RequestFailedError)
    assert "no JSON form" in str(answers[1])


async def test_a_thousand_at_once(node: Node, recording: Hub) -> None:
    await use(node, recording.url)
    result = await node.evaluate("""
        const other = connect(url);
        await other.serve("/js/even", ({value}) => value % 2 ? Promise.resolve(value) : value).confirmed;
        start();
        const asked = [];
        for (let value = 0; value < 2000; value += 1) asked.push(client.request(`/js/even/${value % 3}`, value));
        const answers = await Promise.all(asked);
        await other.close();
        return answers.every((answer, value) => answer === value);
    """)
    assert result is True


async def test_what_is_asked_in_a_turn_is_one_message(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate("""
        await start().ready();
        for (const [topic, value] of [["/a", 1], ["/b", 2], ["/a", 3]]) client.request(topic, value, {timeoutMs: 900});
        client.request("org.example.Name", 4, {service: true});
    """)
    messages = await hub.wait_received("request", 3)
    assert [(one.get("topic", one.get("service")), one["request"], one["values"]) for one in messages] == [
        ("/a", 1, [1, 3]),
        ("/b", 3, [2]),
        ("org.example.Name", 4, [4]),
    ]
    assert "service" in messages[2]
    assert 0 < messages[0]["timeout_ms"] <= 900


async def test_a_lost_connection_ends_what_was_sent(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate("""
        await start().ready();
        client.serve("/served", () => 1);
        globalThis.first = failure(() => client.request("/a", 1));
    """)
    await hub.wait_received("request")
    await hub.wait_received("serve")
    hub.drop_connections()
    lost = await node.evaluate("""
        const lost = await first;
        globalThis.second = client.request("/a", 2);
        return lost;
    """)
    assert lost["code"] == 1006
    again = (await hub.wait_received("serve", 2))[1]
    assert again["prefixes"] == ["/served"]
    request = (await hub.wait_received("request", 2))[1]
    assert (request["values"], request["request"]) == ([2], 2)
    await hub.send(type="reply", request=1, value="late")
    await hub.send(type="reply", request=2, value="in time")
    assert await node.evaluate("return second") == "in time"


async def test_without_a_connection_time_is_kept(node: Node, hub: ScriptedHub) -> None:
    """What cannot be sent ends when its time is up; a hub that answers nothing is given up a little later."""
    hub.refused_connections = 10**6
    result = await node.evaluate("""
        start();
        return [await failure(() => client.request("/a", 1, {timeoutMs: 1})), client.statistics().outboundBytes];
    """)
    assert (result[0]["code"], result[1]) == (4104, 0)
    hub.refused_connections = 0
    result = await node.evaluate("""
        await client.close();
        await start({answerMs: 20000}).ready();
        const impatient = connect(url, {answerMs: 1000});
        const unanswered = await failure(() => impatient.request("/a", 1, {timeoutMs: 1}));
        await impatient.close();
        return unanswered;
    """)
    assert result["code"] == 4104


async def test_bad_calls(node: Node) -> None:
    result = await node.evaluate("""
        await start().ready();
        const bad = [];
        bad.push(await failure(() => client.request("", 1)));
        bad.push(await failure(() => client.request("/a", undefined)));
        bad.push(await failure(() => client.request("/a", 1, {timeoutMs: 0})));
        bad.push(await failure(() => client.serve("/a", "no function")));
        client.serve("/a", () => 1);
        bad.push(await failure(() => client.serve(["/b", "/a"], () => 1)));
        const pending = failure(() => client.request("/a", 1));
        await client.close();
        return {bad: bad.map((error) => error?.name), pending: (await pending).code,
          closed: (await failure(() => client.request("/a", 1))).code};
    """)
    assert result == {"bad": ["TypeError"] * 5, "pending": 1000, "closed": 1000}


NAME = "org.example.Player"


async def test_what_is_no_name(node: Node, recording: Hub) -> None:
    await use(node, recording.url)
    result = await node.evaluate("""
        start();
        const bad = [];
        for (const name of ["player", "a..b", "1.a", "a.b c", `a.${"b".repeat(255)}`, ""]) {
          bad.push((await failure(() => client.claim(name))).name);
        }
        const labels = [...Array(33).keys()].map(String);
        bad.push((await failure(() => client.claim("a.b", {labels}).confirmed)).code);
        await client.claim("a.b").whenOwned();
        return bad;
    """)
    assert result == ["TypeError"] * 6 + [1007]


async def test_what_the_hub_tells_later(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate("""
        await start().ready();
        globalThis.claims = [client.claim("a.a"), client.claim("a.b", {queue: true}), client.claim("a.c")];
        await Promise.all(claims.map((claimed) => claimed.whenOwned()));
        await claims[2].release();
    """)
    await hub.send(type="name", name="a.a", standing="lost", text="too late")
    await hub.send(type="name", name="a.b", standing="queued", text="for now")
    await hub.send(type="name", name="a.c", standing="lost", text="long gone")
    result = await node.evaluate("""
        await until(() => count("error") >= 1);
        const unowned = await failure(() => claims[0].whenOwned());
        return {unowned, stand: claims.map(({standing, reason}) => [standing, reason])};
    """)
    assert result["unowned"] == {"name": "HubError", "code": 1008, "text": "too late"}
    assert result["stand"][:2] == [["ended", "too late"], ["queued", "for now"]]
    await hub.send(type="name", name="a.b", standing="owned")
    assert await node.evaluate("await claims[1].whenOwned(); return [claims[1].owned, count('error')]") == [True, 1]


async def test_names_are_claimed_again(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate("""
        await start().ready();
        globalThis.claims = [client.claim("a.a", {labels: ["x"]}), client.claim("a.b", {queue: true})];
        await Promise.all(claims.map((claimed) => claimed.whenOwned()));
    """)
    hub.refusals["a.b"] = (1008, "name a.b is owned by another")
    hub.drop_connections()
    messages = await hub.wait_received("claim", 4)
    words = [{key: value for key, value in message.items() if key != "request"} for message in messages]
    assert words[2:] == words[:2]
    assert words[0] == {"type": "claim", "name": "a.a", "labels": ["x"], "queue": False}
    result = await node.evaluate("""
        await until(() => count("error") >= 1);
        await claims[0].whenOwned();
        return claims.map(({standing, reason}) => [standing, reason]);
    """)
    assert result == [["owned", ""], ["ended", "name a.b is owned by another"]]


async def test_lists_in_pages(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate("await start().ready(); globalThis.listing = client.names('a.')")
    first = (await hub.wait_received("request"))[0]
    assert (first["topic"], first["values"]) == ("$hub/names", [{"prefix": "a.", "after": ""}])
    page = [{"name": f"a.n{number:03}", "labels": [], "owner": 1, "hub": "00" * 16} for number in range(1000)]
    await hub.send(type="reply", request=first["request"], value=page)
    second = (await hub.wait_received("request", 2))[1]
    assert second["values"] == [{"prefix": "a.", "after": "a.n999"}]
    await hub.send(type="reply", request=second["request"], value=page[:1])
    assert await node.evaluate("return (await listing).length") == 1001
