"""`hub policy`: check a policy, and ask it whether a user may do something."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from hub.errors import UsageError
from peers.cli.admin import ask
from peers.cli.flag_values import FlagError
from peers.cli.texts import counted, encoder, escaped, examples
from peers.cli.url import HubFlags
from peers.daemon.sources import load
from peers.users.question import Question, decide, own_roles, told
from peers.users.users import policy_of, read_policy_file


def check(file: Annotated[str, Parameter(name="FILE", help="The TOML file of the policy.")], /) -> None:
    """Read a policy as the hub does: exit code 0 if it is valid; if not, one line names the place and the cause."""
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
"""The keys of `hub.policy.policy.DEEDS`."""


def trial(  # noqa: PLR0913 -- flags
    user: Annotated[str, Parameter(help='Name of the user; "" for any user with the roles of --role.')],
    action: Annotated[Action, Parameter(help="Action to test.")],
    topic: Annotated[
        str,
        Parameter(
            help="Object of the action: a topic; a prefix for subscribe, serve, journal, take, consume and label; a "
            "name for claim and for stores."
        ),
    ],
    /,
    *,
    policy: Annotated[
        str | None, Parameter(help="TOML file of the policy. Default: the one in the hub's settings.")
    ] = None,
    role: Annotated[
        list[str] | None, Parameter(help="A role that the user's token grants; repeatable.", negative=())
    ] = None,
    config: Annotated[
        str | None, Parameter(help="TOML file with the hub's settings. Default: HUB_CONFIG or ./hub.toml.")
    ] = None,
    running: Annotated[
        bool, Parameter(help="Ask the hub at --url, for admins, instead of reading files.", negative=())
    ] = False,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    json: Annotated[bool, Parameter(help="A JSON object.", negative=())] = False,
) -> int:
    """Test whether a user may do something; show which rule of which role decides, and the limits of the user.

    Exit code 0 if it is allowed, 1 if it is refused.
    """
    question = Question(user, tuple(role or ()), action, topic)
    if running:
        if policy is not None or config is not None:
            raise FlagError("--running asks a hub: leave out --policy and --config")
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
    return told(question, found)


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"{'allowed' if found['allowed'] else 'refused'}: {found['text']}"
    for limit in found["limits"]:
        if limit["most"] is not None:
            yield f"  limit: {limit['key']} {limit['most']:,}"


app = App(
    name="policy",
    help="Check a policy, and test what it allows.",
    help_epilogue=examples("hub policy check policy.toml", "hub policy test alice publish /zeek/dns"),
)
app.command(check, name="check", help="Check a policy file for errors.")
app.command(trial, name="test", help="Test whether a user may do something, and which rule decides.")
