"""`hub policy try`: what would change for those who are connected to a hub, if a file was its policy?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from hub.policy.places import KEPT_CHARACTERS
from peers.cli.admin import ask
from peers.cli.texts import columns, encoder, escaped
from peers.cli.url import HubFlags
from peers.users.files import decoded, read_file

__all__ = ["change"]

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
