"""`hub policy test`: may a user do something, and which rule says so?"""

from __future__ import annotations

import os
from typing import Annotated, Literal

from cyclopts import Parameter

from hub.policy.policy import LOCAL, Action, check_user
from hub.policy.roles import ADMIN
from peers.cli.errors import FlagError
from peers.cli.policy.verdict import Verdict, verdict
from peers.cli.texts import encoder, escaped
from peers.daemon.sources import load
from peers.users.users import policy_of

__all__ = ["trial"]

_REFUSED = 1

ActionName = Literal["publish", "subscribe", "request", "serve", "claim", "journal", "bring", "take"]


def trial(  # noqa: PLR0913 -- flags
    user: Annotated[str, Parameter(help="Who.")],
    action: Annotated[ActionName, Parameter(help="What he wants to do.")],
    topic: Annotated[
        str, Parameter(help="To what: a topic; a prefix for subscribe, serve, journal and take; a name for claim.")
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
    json: Annotated[bool, Parameter(help="A JSON object.", negative=())] = False,
) -> int:
    """Say whether a user may do something, and which rule decides: exit code 0 if he may, 1 if he may not."""
    check_user(user)
    compiled, source = policy_of(load({"access": {"policy": policy}}, os.environ, config).settings.access)
    roles = tuple(role or ()) + ((ADMIN,) if user == LOCAL else ())
    for name in roles:
        if name not in compiled.roles:
            raise FlagError(f"--role {name}: there is no such role in {source}; there are {_listed(compiled.roles)}")
    if not roles and user not in compiled:
        found = Verdict(False, f"{source} has no user {user!r}, and no --role is given: he would not be let in")
    else:
        found = verdict(compiled, user, roles, Action(action), topic)
    if json:
        told = {"user": user, "action": action, "topic": topic, **found._asdict()}
        print(escaped(encoder.encode(told).decode()))
    else:
        print(escaped(f"{'allowed' if found.allowed else 'refused'}: {found.text}"))
    return 0 if found.allowed else _REFUSED


def _listed(roles: frozenset[str]) -> str:
    return ", ".join(sorted(roles)[:8])
