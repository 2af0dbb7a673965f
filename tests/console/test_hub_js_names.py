"""hub.js claims service names: with the real hub, and over a connection that is lost."""

from __future__ import annotations

import pytest

from peers.client import RejectedError, connect
from tests.console.node import Node
from tests.console.real_hub import RealHub
from tests.console.scripted_hub import ScriptedHub

NAME = "org.example.Player"


async def use(node: Node, hub: RealHub | ScriptedHub) -> None:
    await node.evaluate("globalThis.url = address", address=hub.url)


async def test_a_name_has_one_owner(node: Node, real_hub: RealHub) -> None:
    await use(node, real_hub)
    result = await node.evaluate("""
        const one = connect(url), two = connect(url);
        const owned = one.claim("org.example.Player", {labels: ["b", "a"]});
        await owned.whenOwned();
        const refused = await failure(() => two.claim("org.example.Player").confirmed);
        const waits = two.claim("org.example.Player", {queue: true});
        await waits.confirmed;
        const before = [owned.owned, owned.standing, waits.owned, waits.standing];
        const listed = await two.names("org.");
        const twice = await failure(() => two.claim("org.example.Player"));
        await owned.release();
        await waits.whenOwned();
        const after = [owned.owned, owned.standing, owned.reason, waits.owned, waits.standing];
        await one.close();
        await two.close();
        const closed = await failure(() => waits.whenOwned());
        return {before, after, refused, listed, twice, closed};
    """)
    assert result["before"] == [True, "owned", False, "queued"]
    assert result["after"] == [False, "ended", f"the name {NAME} was released", True, "owned"]
    assert result["refused"]["code"] == 1008
    assert result["refused"]["text"].startswith(f"name {NAME} is owned by client ")
    assert [(each["name"], each["labels"]) for each in result["listed"]] == [(NAME, ["a", "b"])]
    assert "has claimed org.example.Player already" in result["twice"]["text"]
    assert result["closed"]["code"] == 1000


async def test_what_is_no_name(node: Node, real_hub: RealHub) -> None:
    await use(node, real_hub)
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


async def test_requests_reach_the_owner(node: Node, real_hub: RealHub) -> None:
    await use(node, real_hub)
    await node.evaluate("""
        start();
        await client.serve("org.example.Player", ({value}) => value + 1).confirmed;
        await client.claim("org.example.Player").whenOwned();
    """)
    async with connect(real_hub.url) as other:
        assert await other.request(NAME, 1, name=True) == 2
        with pytest.raises(RejectedError):
            await other.claim(NAME)


async def test_what_the_hub_tells_later(node: Node, hub: ScriptedHub) -> None:
    await use(node, hub)
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
    await use(node, hub)
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
    await use(node, hub)
    await node.evaluate("await start().ready(); globalThis.listing = client.names('a.')")
    first = (await hub.wait_received("request"))[0]
    assert (first["topic"], first["values"]) == ("$hub/names", [{"prefix": "a.", "after": ""}])
    page = [{"name": f"a.n{number:03}", "labels": [], "owner": 1, "hub": "00" * 16} for number in range(1000)]
    await hub.send(type="reply", request=first["request"], value=page)
    second = (await hub.wait_received("request", 2))[1]
    assert second["values"] == [{"prefix": "a.", "after": "a.n999"}]
    await hub.send(type="reply", request=second["request"], value=page[:1])
    assert await node.evaluate("return (await listing).length") == 1001
