"""`$hub/policy/test` of a hub that listens: what a policy says, and what another one would change."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import random
import tomllib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from hub.errors import (
    BusyError,
    InvalidTopicError,
    NoResponderError,
    NotAllowedError,
    RejectedError,
    RequestFailedError,
)
from hub.policy.language import read_policy
from peers.admin import policy as policy_module
from peers.admin import policy_change
from peers.admin.policy import LARGEST_TEXT, WAITING, PolicyTests
from peers.admin.policy_change import ROWS, SHOWN, merged, sentence
from peers.client import Client, MessageStream, connect
from peers.users.tokens import Token, Tokens, hash_of
from peers.users.users import Users
from tests.hubs.eventually import eventually
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

SUBSCRIBE = 'subscribe = { allow = ["/zeek"], deny = ["/zeek/secret"] }'

ASK = {"action": "publish", "topic": "/zeek/dns", "user": "bob"}


class Site:
    """A hub with users, and clients of it by their names."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        now = datetime.now(UTC)
        tokens = [Token(hash_of(f"hub_{user}"), user, now, None, ()) for user in ("ada", "bob", "carl", "eve")]
        users = Users(
            read_policy(tomllib.loads(POLICY), "policy.toml", POLICY),
            tokens=Tokens({one.sha256: one for one in tokens}),
        )
        hub.node.access.adopt(users)
        hub.node.core.authority.adopt(users.policy)

    @contextlib.asynccontextmanager
    async def client(self, user: str, *prefixes: str, name: str = "") -> AsyncIterator[Client]:
        """Connect as somebody who subscribes to prefixes."""
        async with connect(self.hub.endpoint.location, name=name or user, token=f"hub_{user}") as client:
            if not prefixes:
                yield client
                return
            async with client.subscribe(*prefixes):
                yield client

    async def ask(self, **question: Any) -> Any:
        """Ask as the admin."""
        async with self.client("ada") as ada:
            return await ada.request("$hub/policy/test", question)

    @property
    def tested(self) -> dict[str, int]:
        """What came of all questions."""
        return dict(self.hub.node.access.tested)


@pytest.fixture
def site(hub: Hub) -> Site:
    """A hub with four users, who have tokens."""
    return Site(hub)


def text_without(line: str, *, instead: str = "") -> str:
    """The policy, with another line in the place of one."""
    assert line in POLICY
    return POLICY.replace(line, instead)


async def test_the_rule_that_decides(site: Site) -> None:
    """It is told with its role, and with the file and line where it stands; so is what bounds the user."""
    told = (await site.ask(**ASK))["verdict"]
    assert told["allowed"]
    assert told["text"] == "publish '/zeek/dns': role sensor allows '/zeek' (roles of bob: analyst, sensor)"
    assert told["rule"] == {"role": "sensor", "path": "/zeek", "allowed": True}
    assert told["place"] == {"file": "policy.toml", "line": 3, "key": "roles.sensor.publish[0]"}
    rate, size = told["limits"]
    assert rate == {
        "key": "messages_per_s",
        "most": 50,
        "place": {"file": "policy.toml", "line": 25, "key": "limits.roles.sensor.messages_per_s"},
    }
    assert size == {"key": "bytes_per_s", "most": None, "place": None}
    assert site.tested == {"asked": 1}


@pytest.mark.parametrize(
    ("question", "allowed", "said"),
    [
        (("subscribe", "/zeek/secret/x", "bob"), False, "role analyst denies '/zeek/secret'"),
        (("subscribe", "/zeek/", "bob"), False, "something beneath it is denied"),
        (("consume", "/zeek", "bob"), False, "journal '/zeek': not granted to user 'bob'; no rule allows all of it"),
        (("label", "/zeek/dns/", "bob"), True, "role analyst allows '/zeek'"),
        (("write-store", "s", "ada"), True, "request '$store/s/write': role boss allows '*'"),
        (("watch-store", "s", "ada"), False, "subscribe '$store/s/changes': not granted"),
        (("bring", "/a", "ada"), False, "no rule is met"),
        (("publish", "/a", "mallory"), False, "there is no user 'mallory', and no role is given"),
        (("publish", "/a", "anonymous"), False, "he would not be let in"),
        (("publish", "/a", "local"), True, "role admin allows '*'"),
        (("request", "$hub/kick", "ada"), True, "role boss is an admin's"),
        (("request", "$hub/who", "bob"), False, "$hub/who is for admins; request '$hub/who': role analyst allows"),
        (("request", "$hub/rights", "eve"), True, "$hub/rights answers everybody"),
        (("request", "$hub/state", "eve"), False, "not granted to user 'eve'"),
        (("request", "$hub/rights", "mallory"), False, "he would not be let in"),
        (("request", "$hub/at/00/journal", "local"), False, "hubs alone ask in this way"),
        (("publish", "$hub/who", "local"), False, "$hub/ is the hub's own"),
        (("publish", "$store/s/changes", "local"), False, "a store tells its changes there"),
        (("serve", "$hub/who", "local"), False, "$hub/ is the hub's own"),
        (("serve", "$store/s/", "local"), False, "hubs alone have stores"),
    ],
)
async def test_verdicts(site: Site, question: tuple[str, str, str], allowed: bool, said: str) -> None:  # noqa: FBT001
    """What people do is asked by words of its own; whom the hub itself names is asked like others."""
    action, topic, user = question
    told = (await site.ask(action=action, topic=topic, user=user))["verdict"]
    assert said in told["text"]
    assert told["allowed"] is allowed


async def test_a_verdict_is_what_happens(site: Site) -> None:
    """What is allowed by it the hub does, or says why it makes no sense; what is refused it refuses."""

    async def is_refused(client: Client, topic: str) -> bool:
        try:
            await client.request(topic, "makes no sense")
        except NotAllowedError:
            return True
        except (RequestFailedError, NoResponderError):
            return False
        return False

    async with site.client("bob") as bob, site.client("ada") as ada:
        for client, user in ((bob, "bob"), (ada, "ada")):
            for topic in ("/search", "$hub/who", "$hub/rights", "$hub/kick", "$hub/state", "/other"):
                told = (await site.ask(action="request", topic=topic, user=user))["verdict"]
                assert await is_refused(client, topic) is not told["allowed"], (user, topic)


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
    """A policy in which bob has one or two roles, that say something of the same paths."""
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
    """Do something, and return whether the hub has let it happen; `seen` gets all that is published."""
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


@pytest.mark.parametrize("seed", range(5))
async def test_verdicts_of_random_policies_are_what_happens(site: Site, seed: int) -> None:
    """Whatever a policy says, and whatever somebody does: the hub lets him exactly where it has said so."""
    tree = random_policy(random.Random(seed))  # noqa: S311 -- a test
    access = site.hub.node.access
    policy = read_policy(tree, "random")
    access.adopt(access._users._replace(policy=policy))
    site.hub.node.core.authority.adopt(policy)
    async with site.client("ada") as ada, site.client("bob") as bob, ada.subscribe("", "$store/") as seen:
        for action, topic in itertools.product(ACTIONS, TOPICS):
            told = await ada.request("$hub/policy/test", {"action": action, "topic": topic, "user": "bob"})
            assert await is_let(bob, action, topic, seen) is told["verdict"]["allowed"], (tree, told["verdict"]["text"])


async def test_roles_alone(site: Site) -> None:
    """Whoever has them is asked about; his name stands as it does in paths."""
    told = (await site.ask(action="publish", topic="/status/{user}", roles=["sensor"]))["verdict"]
    assert (told["allowed"], told["rule"]["path"]) == (True, "/status/{user}")
    told = (await site.ask(action="publish", topic="/status/bob", roles=["sensor"]))["verdict"]
    assert not told["allowed"]
    both = await site.ask(action="publish", topic="/zeek", user="carl", roles=["sensor"])
    assert both["verdict"]["allowed"]


async def test_another_policy(site: Site) -> None:
    """It is asked the same, and is not in force; that it is right is told, too."""
    text = text_without('publish = ["/zeek", "/status/{user}"]', instead='\npublish = ["/status"]')
    told = await site.ask(policy=text, **ASK)
    assert not told["verdict"]["allowed"]
    assert told["policy"] == {"roles": 7, "users": 4}
    assert told["change"] is None
    told = await site.ask(policy=text, action="publish", topic="/status/x", user="eve")
    assert told["verdict"]["place"] == {"file": "the policy", "line": 4, "key": "roles.sensor.publish[0]"}
    assert (await site.ask(**ASK))["verdict"]["allowed"]
    assert site.tested == {"tried": 2, "asked": 1}


async def test_what_would_change(site: Site) -> None:
    """Who would lose what, who would be closed, and who might do less or more; nothing of it happens."""
    async with (
        site.client("bob", "/zeek/dns/", "/zeek/conn/") as bob,
        site.client("carl", "/zeek/dns/") as carl,
        site.client("eve") as eve,
    ):
        await bob.claim("org.example.bob")
        text = text_without(SUBSCRIBE, instead='subscribe = ["/zeek/dns"]')
        text = text.replace('claim = ["org.example"]\n', "").replace('eve = ["sensor"]\n', "")
        text = text.replace('carl = ["analyst"]', 'carl = ["analyst", "reader"]')
        told = (await site.ask(policy=text, connected=True))["change"]
        assert told["text"] == (
            "With this policy 1 of 4 connections would be closed; "
            "1 of 4 connections would lose 2 of the 3 prefixes, rules and names that they hold; "
            "of 3 users 2 might do less, 1 might do more."
        )
        closed, loses = sorted(told["rows"], key=lambda row: row["lost"])
        assert (closed["user"], closed["closed"], closed["loses"]) == ("eve", True, [])
        assert (loses["user"], loses["lost"]) == ("bob", 2)
        assert loses["loses"] == ["claim 'org.example.bob'", "subscribe '/zeek/conn/'"]
        rows = {row["user"]: row for row in told["user_rows"]}
        assert set(rows) == {"bob", "carl"}
        assert rows["bob"]["loses"] == ["subscribe '/zeek'", "claim 'org.example'"]
        assert rows["bob"]["gains"] == []
        assert rows["carl"]["loses"] == ["claim 'org.example'"]
        assert rows["carl"]["gains"] == ["subscribe '*'", "subscribe '/zeek/secret'", "journal '*'"]
        assert told["you"] == {"closed": False, "admin": True}
        for client in (bob, carl, eve):
            assert (await client.request("$hub/rights", None))["user"] in {"bob", "carl", "eve"}


async def test_nothing_would_change(site: Site) -> None:
    """That is said, too."""
    async with site.client("bob", "/zeek/dns/"):
        told = (await site.ask(policy="# another one\n" + POLICY, connected=True))["change"]
        assert told["text"] == "With this policy nothing changes for 2 connections."
        assert (told["rows"], told["user_rows"], told["users"]) == ([], [], 2)


async def test_what_one_would_do_to_oneself(site: Site) -> None:
    """Whoever would lock himself out, or be no admin any more, is told so."""
    told = (await site.ask(policy=text_without("admin = true\n"), connected=True))["change"]
    assert told["text"].endswith("You would not be an admin any more.")
    assert told["user_rows"][0]["loses"] == ["administer the hub"]
    told = (await site.ask(policy="[users]", connected=True))["change"]
    assert told["text"] == "With this policy 1 of 1 connection would be closed. You would be closed yourself."


async def test_a_link_that_would_be_none(site: Site) -> None:
    """Whoever is a peer hub, and might not be one any more, would be closed."""
    async with site.client("bob"):
        (handler,) = site.hub.node.core.handlers.values()
        handler.is_link = True
        told = (await site.ask(policy=POLICY, connected=True))["change"]
        assert [row["user"] for row in told["rows"] if row["closed"]] == ["bob"]
        handler.is_link = False


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = 1\nb\n", "the policy: not TOML: .*line 2"),
        ('[roles.x]\npublish = ["/a/"]', r"the policy: roles.x.publish\[0\]: path '/a/' ends with '/'"),
        ('[users]\nada = ["no"]', r"the policy: users.ada\[0\]: there is no role 'no'"),
        ('[certificates]\n"CN=x" = "no"', "there is no user 'no'"),
        ('[users]\na=["admin"]\n[unix]\n"no such account" = "a"', "there is no such account here"),
        ("[roles.x]\npubish = []", "unknown key in .roles.x.; did you mean publish"),
        ("x" + ".a" * 500_000 + " = 1", "a key has more than 128 parts .at line 1."),
        ("x = " + "[" * 100_000, "nested too deep"),
        ("x = " + "9" * 10_000, "not TOML"),
        ("\x00", "not TOML"),
        ("\x1b[31m" * 1000, "not TOML"),
    ],
)
async def test_a_policy_with_a_mistake(site: Site, text: str, said: str) -> None:
    """One line names place and cause, and can be printed."""
    with pytest.raises(RequestFailedError, match=said) as failed:
        await site.ask(policy=text, connected=True)
    assert str(failed.value).isprintable()
    assert len(str(failed.value)) < 1000
    assert site.tested == {"wrong": 1}


async def test_roles_that_the_settings_name(site: Site) -> None:
    """They must be in it, as for a reload."""
    settings = site.hub.node.settings
    site.hub.node.settings = replace(settings, access=replace(settings.access, anonymous="guest"))
    with pytest.raises(RequestFailedError, match=r"access\.anonymous: there is no role 'guest' in the policy"):
        await site.ask(policy=POLICY)
    assert (await site.ask(policy=POLICY + "[roles.guest]\n"))["policy"]["roles"] == 8


async def test_questions_that_make_no_sense(site: Site) -> None:
    """Each is told what was expected."""
    for question, said in (
        ({}, "expected a map"),
        ({"connected": True}, "expected a map"),
        ({"nothing": 1}, "expected a map"),
        ({"policy": 7}, "expected a map"),
        ({"action": "publish", "topic": "/a"}, "expected a user, or a role"),
        (ASK | {"action": "push"}, "there is no action 'push'; there are publish"),
        (ASK | {"user": "a/b"}, "no name of a user"),
        (ASK | {"user": "x" * 100_000}, "no name of a user"),
        (ASK | {"topic": "a\x00"}, "control character"),
        (ASK | {"topic": "x" * 100_000}, "the limit is"),
        (ASK | {"topic": ""}, "topic is empty"),
        (ASK | {"action": "claim", "topic": "x"}, "it takes two or more elements"),
        (ASK | {"roles": ["no"]}, "there is no role 'no'; there are admin"),
        (ASK | {"roles": ["\u202e" * 100]}, "there is no role"),
    ):
        with pytest.raises(RequestFailedError, match=said) as failed:
            await site.ask(**question)
        assert str(failed.value).isprintable()


async def test_it_is_for_admins(site: Site) -> None:
    """Nobody else is told, whatever he may ask."""
    async with site.client("bob") as bob:
        with pytest.raises(NotAllowedError):
            await bob.request("$hub/policy/test", ASK)
        assert "$hub/policy/test" not in (await bob.request("$hub/rights", None))["asks"]
    assert site.tested == {}


async def test_a_text_that_is_too_large(site: Site) -> None:
    """It is refused before anything is done with it, and counted."""
    with pytest.raises(RequestFailedError, match=f"at most {LARGEST_TEXT} are tried"):
        await site.ask(policy="#" * (LARGEST_TEXT + 1))
    assert (await site.ask(policy="[users]".ljust(LARGEST_TEXT, "\n")))["policy"] == {"roles": 4, "users": 0}
    assert site.tested == {"too_large": 1, "tried": 1}


async def test_many_at_once(site: Site) -> None:
    """They wait for one another; of too many, some are told to ask again."""
    tests = PolicyTests(site.hub.node)
    answers = [tests.answer({}, ASK) for _ in range(WAITING)]
    with pytest.raises(BusyError, match="16 questions about policies wait already: ask again"):
        tests.answer({}, ASK)
    await eventually(lambda: all(one.value for one in answers))
    assert all(one.value["verdict"]["allowed"] for one in answers)
    assert site.tested == {"asked": WAITING, "busy": 1}
    assert tests.answer({}, ASK)


async def test_bounded_answers(site: Site) -> None:
    """Of many connections, and of many things that one holds, some are told, and all are counted."""
    async with contextlib.AsyncExitStack() as stack:
        for number in range(ROWS + 5):
            prefixes = [f"/zeek/{each}/" for each in range(SHOWN + 3)] if not number else ["/zeek/dns/"]
            await stack.enter_async_context(site.client("carl", *prefixes, name=f"carl-{number}"))
        text = text_without(SUBSCRIBE)
        told = (await site.ask(policy=text, connected=True))["change"]
        assert (told["connections"], told["losing"], len(told["rows"])) == (ROWS + 6, ROWS + 5, ROWS)
        assert (len(told["rows"][0]["loses"]), told["rows"][0]["lost"]) == (SHOWN, SHOWN + 3)
        assert told["lost"] == told["held"] == SHOWN + 3 + ROWS + 4
        assert (told["users"], len(told["user_rows"])) == (2, 1), "one for all connections of one user"


async def test_in_slices(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have their turns between them: as often as there is so much work."""
    turns = []

    async def turn(_: float) -> None:
        turns.append(1)

    async with site.client("carl", *(f"/zeek/{number}/" for number in range(200))):
        monkeypatch.setattr(policy_change, "SLICE", 50)
        monkeypatch.setattr(policy_change.asyncio, "sleep", turn)
        told = (await site.ask(policy=POLICY, connected=True))["change"]
    assert told["connections"] == 2
    assert len(turns) >= 4


async def test_who_leaves_meanwhile(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """He is not looked at any more."""
    async with site.client("carl", "/zeek/dns/") as carl:
        real = asyncio.sleep

        async def leave(_: float) -> None:
            carl_there = [one for one in site.hub.node.core.handlers.values() if one.name == "carl"]
            if carl_there:
                await carl.close()
                await eventually(lambda: not carl_there[0].id or carl_there[0].closed)
            await real(0)

        monkeypatch.setattr(policy_change, "SLICE", 1)
        monkeypatch.setattr(policy_change.asyncio, "sleep", leave)
        assert (await site.ask(policy=POLICY, connected=True))["change"]["connections"] <= 2


async def test_the_collector_is_kept_out(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a policy is read it would stop everything again and again; also if there is a mistake in it."""
    was: list[bool] = []
    tried = site.hub.node.access.tried

    def watched(*asked: Any) -> Any:
        was.append(gc.isenabled())
        return tried(*asked)

    monkeypatch.setattr(site.hub.node.access, "tried", watched)
    await site.ask(policy=POLICY)
    with pytest.raises(RequestFailedError):
        await site.ask(policy="x")
    assert was == [False, False]
    assert gc.isenabled()


async def test_a_hub_without_users(hub: Hub) -> None:
    """Everything is allowed to everybody there; with a policy, everybody would have to connect again."""
    async with connect(hub.endpoint.location) as client:
        told = await client.request("$hub/policy/test", ASK)
        assert told["verdict"]["text"] == "this hub has no users: everybody may do everything"
        told = await client.request("$hub/policy/test", ASK | {"topic": "$hub/x"})
        assert (told["verdict"]["allowed"], told["verdict"]["text"]) == (
            False,
            "publish '$hub/x': $hub/ is the hub's own",
        )
        with pytest.raises(RequestFailedError, match="there is no action 'push'"):
            await client.request("$hub/policy/test", ASK | {"action": "push"})
        told = await client.request("$hub/policy/test", {"policy": POLICY, "connected": True})
        assert (told["change"]["connections"], told["change"]["closed"]) == (1, 1)


async def test_a_bug(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told as such, and the next question is answered."""

    def fail(*_: Any) -> Any:
        raise RuntimeError("secret")

    monkeypatch.setattr(policy_module, "decide", fail)
    with pytest.raises(RequestFailedError, match="a bug of the hub"):
        await site.ask(**ASK)
    monkeypatch.undo()
    assert (await site.ask(**ASK))["verdict"]["allowed"]


def test_all_processes() -> None:
    """Their sums are added up, and the sentence is said of these."""
    row = {"user": "x"}
    sums = ("connections", "unasked", "closed", "losing", "lost", "held")
    one: dict[str, Any] = dict.fromkeys((*sums, "users", "users_losing", "users_gaining", "users_uncompared"), 1)
    one["unheard"] = 0
    one |= {"rows": [row] * ROWS, "user_rows": [row], "you": None, "text": ""}
    found = merged([one, one | {"connections": 4, "you": {"closed": False, "admin": False}}])
    assert (found["connections"], found["lost"], len(found["rows"]), len(found["user_rows"])) == (5, 2, ROWS, 2)
    assert found["text"] == sentence(found)
    assert found["text"].startswith(
        "With this policy 2 of 5 connections would be closed; 2 of 5 connections would lose "
    )
    assert "2 users could not be compared: there are too many paths." in found["text"]
    assert found["text"].endswith("You would not be an admin any more.")
    assert "no answer" not in found["text"]
    found = merged([one, one], unheard=2)
    assert found["unheard"] == 2
    assert " 2 processes of this hub gave no answer: what is connected there is not counted." in found["text"]
