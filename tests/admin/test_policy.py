"""`$hub/policy/test` of a hub that listens: what the policy says."""

from __future__ import annotations

import contextlib
import itertools
import random
import tomllib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from hub.errors import InvalidTopicError, NoResponderError, NotAllowedError, RejectedError, RequestFailedError
from hub.policy.language import read_policy
from peers.client import Client, MessageStream, connect
from peers.users.tokens import Token, Tokens, hash_of
from peers.users.users import Users
from tests.hubs.hub import Hub

POLICY = """
[roles.sensor]
publish = ["/zeek", "/status/{user}"]

[roles.analyst]
subscribe = { allow = ["/zeek"], deny = ["/zeek/secret"] }
claim = ["org.example"]
serve = ["/search"]
request = ["$hub/who", "/search"]

[roles.boss]
admin = true
request = ["*"]

[users]
ada = ["boss"]
bob = ["analyst", "sensor"]
carl = ["analyst"]
eve = ["sensor"]

[limits.users.bob]
prefixes = 7

[limits.roles.sensor]
messages_per_s = 50
"""
ASK = {"action": "publish", "topic": "/zeek/dns", "user": "bob"}


class Site:
    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        now = datetime.now(UTC)
        tokens = [Token(hash_of(f"hub_{user}"), user, now, None, ()) for user in ("ada", "bob", "carl", "eve")]
        users = Users(
            read_policy(tomllib.loads(POLICY), "policy.toml"), tokens=Tokens({one.sha256: one for one in tokens})
        )
        hub.server.access.adopt(users)
        hub.server.core.authority.adopt(users.policy)

    @contextlib.asynccontextmanager
    async def client(self, user: str, *prefixes: str, name: str = "") -> AsyncIterator[Client]:
        async with connect(self.hub.endpoint.location, name=name or user, token=f"hub_{user}") as client:
            if not prefixes:
                yield client
                return
            async with client.subscribe(*prefixes):
                yield client

    async def ask(self, **question: Any) -> Any:
        async with self.client("ada") as ada:
            return await ada.request("$hub/policy/test", question)

    @property
    def tested(self) -> dict[str, int]:
        return dict(self.hub.server.access.tested)


@pytest.fixture
def site(hub: Hub) -> Site:
    return Site(hub)


async def test_the_rule_that_decides(site: Site) -> None:
    told = (await site.ask(**ASK))["verdict"]
    assert told["allowed"]
    assert told["text"] == "publish '/zeek/dns': role sensor allows '/zeek' (roles of bob: analyst, sensor)"
    assert told["rule"] == {"role": "sensor", "path": "/zeek", "allowed": True}
    rate, size = told["limits"]
    assert rate == {"key": "messages_per_s", "most": 50}
    assert size == {"key": "bytes_per_s", "most": None}
    subscribing = (await site.ask(action="subscribe", topic="/zeek/dns/", user="bob"))["verdict"]
    assert subscribing["limits"][0] == {"key": "prefixes", "most": 7}
    assert site.tested == {"allowed": 2}


@pytest.mark.parametrize(
    ("question", "allowed", "said"),
    [
        (("subscribe", "/zeek/secret/x", "bob"), False, "role analyst denies '/zeek/secret'"),
        (("subscribe", "/zeek/", "bob"), False, "something below it is denied"),
        (("consume", "/zeek", "bob"), False, "journal '/zeek': not granted to user 'bob'; no rule allows all of it"),
        (("label", "/zeek/dns/", "bob"), True, "role analyst allows '/zeek'"),
        (("write-store", "s", "ada"), True, "request '$store/s/write': role boss allows '*'"),
        (("watch-store", "s", "ada"), False, "subscribe '$store/s/changes': not granted"),
        (("bring", "/a", "ada"), False, "no rule is met"),
        (("publish", "/a", "mallory"), False, "there is no user 'mallory', and no role is given"),
        (("publish", "/a", "anonymous"), False, "this user may not connect"),
        (("publish", "/a", "local"), True, "role admin allows '*'"),
        (("request", "$hub/kick", "ada"), True, "role boss is an admin's"),
        (("request", "$hub/who", "bob"), False, "$hub/who is for admins; request '$hub/who': role analyst allows"),
        (("request", "$hub/rights", "eve"), True, "$hub/rights answers every user"),
        (("request", "$hub/state", "eve"), False, "not granted to user 'eve'"),
        (("request", "$hub/rights", "mallory"), False, "this user may not connect"),
        (("request", "$hub/at/00/journal", "local"), False, "hubs alone ask in this way"),
        (("publish", "$hub/who", "local"), False, "$hub/ is the hub's own"),
        (("publish", "$store/s/changes", "local"), False, "only a store publishes its changes there"),
        (("serve", "$hub/who", "local"), False, "$hub/ is the hub's own"),
        (("serve", "$store/s/", "local"), False, "hubs alone have stores"),
    ],
)
async def test_verdicts(site: Site, question: tuple[str, str, str], allowed: bool, said: str) -> None:  # noqa: FBT001
    action, topic, user = question
    told = (await site.ask(action=action, topic=topic, user=user))["verdict"]
    assert said in told["text"]
    assert told["allowed"] is allowed


TOPICS = (
    "/a",
    "/a/b",
    "/ab",
    "/bob",
    "$hub/who",
    "$hub/a",
    "$store/s",
    "$store/s/changes/1",
    "\u00e9",
    "e\u0301",
    "/a/",
)
PATHS = ("*", "/a", "/a/b", "/{user}", "$hub", "$hub/who", "$store", "$store/s", "\u00e9")
ACTIONS = ("publish", "subscribe", "request", "serve")


def random_policy(chance: random.Random) -> dict[str, Any]:
    roles: dict[str, Any] = {
        role: {
            action: {verdict: chance.sample(PATHS, chance.randint(0, 3)) for verdict in ("allow", "deny")}
            for action in ACTIONS
        }
        for role in ("one", "other")
    }
    of_bob = ["marks", "one", "other"][: chance.randint(2, 3)]
    return {"roles": roles | {"marks": {"publish": ["/mark"]}}, "users": {"ada": ["admin"], "bob": of_bob}}


async def is_let(client: Client, action: str, topic: str, seen: MessageStream) -> bool:
    if action == "publish":
        with contextlib.suppress(InvalidTopicError):  # what is the hub's own a client does not even send
            client.publish_nowait(topic, 1)
        client.publish_nowait("/mark", 1)
        topics = [(await anext(seen)).topic]
        while topics[-1] != "/mark":
            topics.append((await anext(seen)).topic)
        return topic in topics
    try:
        if action == "request":
            await client.request(topic, "makes no sense")
        else:
            async with client.subscribe(topic) if action == "subscribe" else client.serve(topic, lambda value: value):
                pass
    except (RejectedError, NotAllowedError):
        return False
    except (NoResponderError, RequestFailedError):
        pass
    return True


@pytest.mark.parametrize("seed", range(3))
async def test_verdicts_of_random_policies_are_what_happens(site: Site, seed: int) -> None:
    tree = random_policy(random.Random(seed))  # noqa: S311 -- a test
    access = site.hub.server.access
    policy = read_policy(tree, "random")
    access.adopt(access._users._replace(policy=policy))
    site.hub.server.core.authority.adopt(policy)
    async with site.client("ada") as ada, site.client("bob") as bob, ada.subscribe("", "$store/") as seen:
        for action, topic in itertools.product(ACTIONS, TOPICS):
            told = await ada.request("$hub/policy/test", {"action": action, "topic": topic, "user": "bob"})
            assert await is_let(bob, action, topic, seen) is told["verdict"]["allowed"], (tree, told["verdict"]["text"])


async def test_roles_alone(site: Site) -> None:
    told = (await site.ask(action="publish", topic="/status/{user}", roles=["sensor"]))["verdict"]
    assert (told["allowed"], told["rule"]["path"]) == (True, "/status/{user}")
    told = (await site.ask(action="publish", topic="/status/bob", roles=["sensor"]))["verdict"]
    assert not told["allowed"]
    both = await site.ask(action="publish", topic="/zeek", user="carl", roles=["sensor"])
    assert both["verdict"]["allowed"]


async def test_questions_that_make_no_sense(site: Site) -> None:
    for question, said in (
        ({}, "expected a map"),
        ({"nothing": 1}, "expected a map"),
        (ASK | {"policy": "[users]"}, "expected a map"),
        ({"action": "publish", "topic": "/a"}, "expected a user, or a role"),
        (ASK | {"action": "push"}, "there is no action 'push'; there are publish"),
        (ASK | {"user": "a/b"}, "not a valid name of a user"),
        (ASK | {"user": "x" * 100_000}, "not a valid name of a user"),
        (ASK | {"topic": "a\x00"}, "control character"),
        (ASK | {"topic": "x" * 100_000}, "the limit is"),
        (ASK | {"topic": ""}, "topic is empty"),
        (ASK | {"action": "claim", "topic": "x"}, "is not a valid name"),
        (ASK | {"roles": ["no"]}, "there is no role 'no'; there are admin"),
        (ASK | {"roles": ["\u202e" * 100]}, "there is no role"),
    ):
        with pytest.raises(RequestFailedError, match=said) as failed:
            await site.ask(**question)
        assert str(failed.value).isprintable()


async def test_it_is_for_admins(site: Site) -> None:
    async with site.client("bob") as bob:
        with pytest.raises(NotAllowedError):
            await bob.request("$hub/policy/test", ASK)
        assert "$hub/policy/test" not in (await bob.request("$hub/rights", None))["asks"]
    assert site.tested == {}


async def test_a_hub_without_users(hub: Hub) -> None:
    async with connect(hub.endpoint.location) as client:
        told = await client.request("$hub/policy/test", ASK)
        assert told["verdict"]["text"] == "this hub has no users: every client may do everything"
        told = await client.request("$hub/policy/test", ASK | {"topic": "$hub/x"})
        assert (told["verdict"]["allowed"], told["verdict"]["text"]) == (
            False,
            "publish '$hub/x': $hub/ is the hub's own",
        )
        with pytest.raises(RequestFailedError, match="there is no action 'push'"):
            await client.request("$hub/policy/test", ASK | {"action": "push"})
