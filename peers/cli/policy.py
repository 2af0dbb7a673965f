"""`hub policy`: is a policy right, what may somebody do by it, and what would it change for those who are connected?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from hub.errors import UsageError
from hub.policy.places import KEPT_CHARACTERS
from peers.cli.admin import ask
from peers.cli.flag_values import FlagError
from peers.cli.texts import columns, counted, encoder, escaped, examples
from peers.cli.url import HubFlags
from peers.daemon.sources import load
from peers.users.files import decoded, read_file
from peers.users.question import Question, decide, own_roles, told
from peers.users.users import policy_of, read_policy_file


def check(file: Annotated[str, Parameter(name="FILE", help="The TOML file of the policy.")], /) -> None:
    """Read a policy as the hub would: exit code 0 if it is right; if not, one line names the place and the cause."""
    policy = read_policy_file(file)
    roles, users = counted(len(policy.roles), "role"), counted(len(policy.users), "user")
    print(escaped(f"{file} is right: {roles} with those that are built in, {users}"))


_REFUSED = 1

Action = Literal[
    "publish",
    "subscribe",
    "request",
    "serve",
    "claim",
    "journal",
    "bring",
    "take",
    "consume",
    "label",
    "read-store",
    "write-store",
    "watch-store",
]
"""The keys of `hub.policy.verdict.DEEDS`."""


def trial(  # noqa: PLR0913 -- flags
    user: Annotated[str, Parameter(help='Who; "" for whoever has the roles of --role.')],
    action: Annotated[Action, Parameter(help="What he wants to do.")],
    topic: Annotated[
        str,
        Parameter(
            help="To what: a topic; a prefix for subscribe, serve, journal, take, consume and label; a name for claim "
            "and for stores."
        ),
    ],
    /,
    *,
    policy: Annotated[
        str | None, Parameter(help="TOML file of the policy; without it the one of the hub's settings.")
    ] = None,
    role: Annotated[
        list[str] | None, Parameter(help="A role that his token vouches for; repeat it.", negative=())
    ] = None,
    config: Annotated[
        str | None, Parameter(help="The hub's TOML file with settings; HUB_CONFIG or ./hub.toml without it.")
    ] = None,
    running: Annotated[
        bool, Parameter(help="Ask the hub at --url, for admins, instead of reading files.", negative=())
    ] = False,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    json: Annotated[bool, Parameter(help="A JSON object.", negative=())] = False,
) -> int:
    """Say whether a user may do something, which rule decides and where it stands, and what bounds him.

    Exit code 0 if he may, 1 if he may not.
    """
    question = Question(user, tuple(role or ()), action, topic)
    if running:
        if policy is not None or config is not None:
            raise FlagError("--running asks a hub: leave out --policy and --config, or use `hub policy try FILE`")
        asked = question._asdict()
        found: dict[str, Any] = ask("policy test", hub, asked, topic="policy/test")["verdict"]
    else:
        found = _by_files(question, policy, config)
    print(escaped(encoder.encode(found).decode()) if json else "\n".join(map(escaped, _lines(found))))
    return 0 if found["allowed"] else _REFUSED


def _by_files(question: Question, policy: str | None, config: str | None) -> dict[str, Any]:
    settings = load({"access": {"policy": policy}}, os.environ, config).settings
    compiled, _ = policy_of(settings.access)
    try:
        found = decide(compiled, question, own_roles(settings))
    except UsageError as error:
        raise FlagError(str(error)) from error
    return told(compiled, question, found)


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"{'allowed' if found['allowed'] else 'refused'}: {found['text']}"
    place = found["place"]
    if place is not None:
        yield f"  rule: {_place(place)}"
    for limit in found["limits"]:
        if limit["most"] is not None:
            yield f"  limit: {limit['key']} {limit['most']:,} ({_place(limit['place'])})"


def _place(place: dict[str, Any]) -> str:
    if not place["file"]:
        return "a built-in role"
    line = "" if place["line"] is None else f", line {place['line']}"
    return f"{place['file']}{line}: {place['key']}"


_LOSES = 1
_LONGEST_BYTES_OF_CHARACTER = 4

_WORK_S = 60.0
"""How long the hub may take, beside what any answer may."""

_CONNECTIONS = ("id", "name", "user", "what", "loses")
_USERS = ("user", "might do no more", "might do")


def change(
    file: Annotated[str, Parameter(name="FILE", help="The TOML file of the policy.")],
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    json: Annotated[bool, Parameter(help="A JSON object.", negative=())] = False,
) -> int:
    """Say what would change for everybody who is connected if a file was the policy of a hub that runs; for admins.

    It is not put in force. Exit code 0 if nobody would lose anything, 1 if somebody would.
    """
    text = decoded(read_file(Path(file), KEPT_CHARACTERS * _LONGEST_BYTES_OF_CHARACTER, "a policy to try"), file)
    asked = {"policy": text, "connected": True}
    found = ask("policy try", hub, asked, topic="policy/test", wait_s=_WORK_S)["change"]
    if json:
        print(escaped(encoder.encode(found).decode()))
    else:
        print(escaped(found["text"]))
        for table in (columns(_CONNECTIONS, _of_connections(found)), columns(_USERS, _of_users(found))):
            if table:
                print("", *table, sep="\n")
    return _LOSES if found["closed"] or found["losing"] or found["users_losing"] else 0


def _of_connections(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (
            row["id"],
            row["name"] or row["address"],
            row["user"],
            "closed" if row["closed"] else "loses",
            _some(row["loses"], row["lost"]),
        )
        for row in found["rows"]
    ]


def _of_users(found: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (row["user"], _some(row["loses"], row["lost"]), _some(row["gains"], row["gained"]))
        for row in found["user_rows"]
    ]


def _some(shown: list[str], count: int) -> str:
    more = count - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")


app = App(
    name="policy",
    help="Is a policy right, and what may somebody do by it?",
    help_epilogue=examples("hub policy check policy.toml", "hub policy test alice publish /zeek/dns"),
)
app.command(check, name="check", help="Read a policy, and say what is wrong with it.")
app.command(trial, name="test", help="May a user do something? Which rule says so?")
app.command(change, name="try", help="What would a policy change for who is connected?")
