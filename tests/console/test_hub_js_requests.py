"""hub.js asks and serves: with the real hub, and with one that misbehaves."""

from __future__ import annotations

from typing import Any

import msgspec

from peers.client import RequestFailedError, connect
from tests.console.node import Node
from tests.console.real_hub import RealHub
from tests.console.scripted_hub import ScriptedHub


async def use(node: Node, hub: RealHub | ScriptedHub) -> None:
    await node.evaluate("globalThis.url = address", address=hub.url)


async def test_a_client_answers_another(node: Node, real_hub: RealHub) -> None:
    await use(node, real_hub)
    result = await node.evaluate("""
        const other = connect(url);
        const sum = other.serve("/js/", ({topic, value}) => [topic, value.reduce((one, two) => one + two)]);
        const later = other.serve(["/js/later", "/js/late"], async ({value}) => [await value]);
        await Promise.all([sum.confirmed, later.confirmed]);
        const client = start();
        const answers = await Promise.all([
          client.request("/js/sum", [1, 2, 3]), client.request("/js/later/", "x"), client.request("/js/late", null),
        ]);
        await later.close();
        answers.push(await client.request("/js/later/", ["a", "b"]));
        await sum.close();
        const failed = await failure(() => client.request("/js/sum", [1]));
        const {pendingRequests} = client.statistics();
        await other.close();
        return {answers, failed, pendingRequests};
    """)
    assert result["answers"] == [["/js/sum", 6], ["x"], [None], ["/js/later/", "ab"]]
    assert result["failed"]["name"] == "RequestError"
    assert result["failed"]["code"] == 4102
    assert result["pendingRequests"] == 0


async def test_what_a_service_throws_is_told(node: Node, real_hub: RealHub) -> None:
    await use(node, real_hub)
    result = await node.evaluate("""
        const served = start();
        const throwing = ({value}) => { throw new Error(`no ${value}`); };
        const rejecting = async ({value}) => { throw new Error(`not ${value}`); };
        const services = [served.serve("/js/throw", throwing), served.serve("/js/reject", rejecting),
          served.serve("/js/odd", () => 1n), served.serve("/js/none", () => undefined)];
        await Promise.all(services.map((service) => service.confirmed));
        const answers = [];
        for (const topic of ["/js/throw", "/js/reject", "/js/odd"]) {
          answers.push(await failure(() => served.request(topic, "x")));
        }
        return {answers, nothing: await served.request("/js/none", 1), told: count("error")};
    """)
    assert [answer["code"] for answer in result["answers"]] == [4101, 4101, 4101]
    assert [answer["text"] for answer in result["answers"][:2]] == ["no x", "not x"]
    assert (result["nothing"], result["told"]) == (None, 3)


async def test_with_a_client_in_python(node: Node, real_hub: RealHub) -> None:
    await use(node, real_hub)
    await node.evaluate("""
        start();
        const echo = client.serve("/js/echo", ({value}) => value);
        await echo.confirmed;
    """)
    async with connect(real_hub.url) as client, client.serve("/py/double", lambda request: request.value * 2):
        assert await node.evaluate('return client.request("/py/double", 21)') == 42
        assert await client.request_many("/js/echo", [1, "two", b"\0\1"]) == [1, "two", "AAE="]
        answers: list[Any] = await client.request_many(
            "/js/echo", [1, msgspec.msgpack.Ext(99, b""), 3], return_exceptions=True
        )
    assert (answers[0], answers[2]) == (1, 3)
    assert isinstance(answers[1], RequestFailedError)
    assert "no JSON form" in str(answers[1])


async def test_a_thousand_at_once(node: Node, real_hub: RealHub) -> None:
    await use(node, real_hub)
    result = await node.evaluate("""
        const other = connect(url);
        await other.serve("/js/even", ({value}) => value % 2 ? Promise.resolve(value) : value).confirmed;
        start();
        const asked = [];
        for (let value = 0; value < 10000; value += 1) asked.push(client.request(`/js/even/${value % 3}`, value));
        const answers = await Promise.all(asked);
        await other.close();
        return answers.every((answer, value) => answer === value);
    """)
    assert result is True


async def test_what_is_asked_in_a_turn_is_one_message(node: Node, hub: ScriptedHub) -> None:
    await use(node, hub)
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
    await use(node, hub)
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
    await use(node, hub)
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


async def test_bad_calls(node: Node, hub: ScriptedHub) -> None:
    await use(node, hub)
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
