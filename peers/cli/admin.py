"""Commands for admins and others that ask the hub itself: `hub who`, `users`, `names`, `kick`, `reload`, `drain`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

from cyclopts import Parameter

from hub.topics import RESERVED
from peers.cli.flag_values import FlagError
from peers.cli.notices import Notices
from peers.cli.texts import Cell, columns, counted, escaped, json_text
from peers.cli.url import HubFlags
from peers.client import KnownName, connect
from peers.client.client import Connecting
from peers.wire.control import CLOSE_TEXT_LIMIT_BYTES

_USUAL_S = 10.0
"""Timeout of an answer, beside the time that the hub itself waits for others."""


def ask(command: str, hub: HubFlags, value: Any, *, topic: str = "", wait_s: float = 0.0) -> Any:
    """Send a request to a service of the hub; return its answer.

    Args:
        command: Its name.
        hub: Which hub.
        value: Of the request.
        topic: Under `$hub/`, where that is not the name of the command.
        wait_s: How long the hub itself waits for others before it answers.
    """

    async def one() -> Any:
        async with _connected(command, hub) as client:
            return await client.request(RESERVED + (topic or command), value, timeout_s=_USUAL_S + wait_s)

    return asyncio.run(one())


def ask_pages(
    command: str,
    hub: HubFlags,
    value: dict[str, Any],
    after: Callable[[dict[str, Any]], Any],
    *,
    topic: str = "",
) -> list[dict[str, Any]]:
    """Ask as `ask` for one page after the other until one is empty; return all rows.

    `after` returns the `after` of the next page from the last row.
    """

    async def all_of_it() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        async with _connected(command, hub) as client:
            while True:
                place = {"after": after(rows[-1])} if rows else {}
                found = await client.request(RESERVED + (topic or command), value | place)
                rows += found
                if not found:
                    return rows

    return asyncio.run(all_of_it())


def json_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Return rows as one JSON object a line."""
    return [(json_text(row) or b"").decode() for row in rows]


def _connected(command: str, hub: HubFlags) -> Connecting:
    """Return a client for one question: it does not reconnect."""
    options = Notices(command).options(hub)
    options["on_disconnect"] = lambda _: None  # the question fails, if it is still open: that says it all
    options["reconnect"] = False
    return connect(hub.url, **options)


_PAGE = 1_000
"""Connections that are asked for at once, about 400 KiB: 10,000 take ten answers."""

_WHO = ("id", "user", "by", "role", "name", "over", "address", "since (UTC)", "prefixes", "in", "out")
_WAITING = ("queued", "queued bytes", "dropped")


def who(
    user: Annotated[
        str | None, Parameter(help="Only connections of this user. Default: all.", show_default=False)
    ] = None,
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    json: Annotated[bool, Parameter(help="A JSON object a line.", negative=())] = False,
) -> None:
    """List the connections of a hub, for admins. Counts are messages since each has connected."""
    whom = {} if user is None else {"user": user}
    rows = ask_pages("who", hub, {"limit": _PAGE} | whom, lambda row: row["id"])
    for line in json_lines(rows) if json else columns((*_WHO, *_WAITING), [_who_cells(row) for row in rows]):
        print(line)


def _who_cells(row: dict[str, Any]) -> tuple[Cell, ...]:
    return (
        row["id"],
        row["user"],
        row["how"],
        row["role"],
        row["name"],
        row["protocol"],
        row["address"],
        datetime.fromtimestamp(row["since"], UTC).strftime("%Y-%m-%d %H:%M:%S"),
        row["prefixes"],
        row["published_messages"],
        row["delivered_messages"],
        row["queued_messages"],
        row["queued_bytes"],
        row["dropped_messages"],
    )


_USERS = ("user", "roles", "connections", "queued bytes", "in", "dropped")


def users(
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    json: Annotated[bool, Parameter(help="A JSON object a line.", negative=())] = False,
) -> None:
    """List the users of a hub, for admins: users of its policy, and other connected users.

    `-` means all users without rights of their own: nothing is charged to them.
    """
    rows = ask_pages("users", hub, {}, lambda row: row["user"])
    for line in json_lines(rows) if json else columns(_USERS, [_sums(row) for row in rows]):
        print(line)


def _sums(row: dict[str, Any]) -> tuple[Cell, ...]:
    return (
        row["user"],
        ", ".join(row["roles"]),
        row["connections"],
        row["queued_bytes"],
        row["published_messages"],
        row["dropped_messages"],
    )


def names(
    prefix: Annotated[str, Parameter(help="Only names with this prefix.")] = "",
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    json: Annotated[bool, Parameter(help="A JSON object a line.", negative=())] = False,
) -> None:
    """List the service names that a hub knows, including those of its peers."""
    found, own_id = asyncio.run(_list(prefix, hub))
    if not found and sys.stderr.isatty():  # for people: a program sees that there is no line
        begins = f" that begins with {prefix}" if prefix else ""
        print(escaped(f"hub names: the hub knows no name{begins}"), file=sys.stderr)
    for line in _name_objects(found) if json else _name_lines(found, own_id):
        print(line)


async def _list(prefix: str, hub: HubFlags) -> tuple[list[KnownName], bytes]:
    async with connect(hub.url, **Notices("names").options(hub)) as client:
        found = await client.names(prefix)
        return found, client.hub.id if client.hub is not None else b""


def _name_objects(found: list[KnownName]) -> list[str]:
    made = [json_text(each._asdict() | {"hub": each.hub.hex()}) or b"" for each in found]
    return [line.decode() for line in made]


def _name_lines(found: list[KnownName], own_id: bytes) -> list[str]:
    """Return names in columns; the hub is named where it is not the one that was asked."""
    owners = [f"client {each.owner}" + (f" of {each.hub.hex()}" if each.hub != own_id else "") for each in found]
    widths = max((len(each.name) for each in found), default=0), max(map(len, owners), default=0)
    show = escaped if sys.stdout.isatty() else str
    return [
        show(f"{each.name:{widths[0]}}  {owner:{widths[1]}}  {', '.join(each.labels)}".rstrip())
        for each, owner in zip(found, owners, strict=True)
    ]


def kick(
    connection: Annotated[int | None, Parameter(help="The id that `hub who` shows.", show_default=False)] = None,
    /,
    *,
    user: Annotated[
        str | None, Parameter(help="All connections of this user, except this one.", show_default=False)
    ] = None,
    text: Annotated[str, Parameter(help="Reason sent to the client, up to 123 bytes.", show_default=False)] = "",
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
) -> None:
    """Close a connection, or all connections of a user, for admins.

    The close code is 4403, after which clients do not reconnect by themselves. To keep a user out, remove the user from
    the policy, or revoke the token.
    """
    if (connection is None) is (user is None):
        raise FlagError("give either the ID of a connection, which `hub who` shows, or --user")
    if len(text.encode("utf-8", "replace")) > CLOSE_TEXT_LIMIT_BYTES:
        raise FlagError(f"--text: at most {CLOSE_TEXT_LIMIT_BYTES} bytes are told")
    order: dict[str, Any] = {"id": connection} if user is None else {"user": user}
    told = ask("kick", hub, order | ({"text": text} if text else {}))
    print(f"hub kick: {counted(told['kicked'], 'connection')} closed")


def reload(
    *,
    force: Annotated[
        bool, Parameter(help="Also if the policy closes more than `access.reload_closes` allows.", negative=())
    ] = False,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
) -> None:
    """Reload settings, policy, tokens and certificates of a hub, as SIGHUP does; for admins.

    Prints what has changed, or why nothing has.
    """
    answer = ask("reload", hub, {"force": True} if force else None)
    changed = ", ".join(answer["changed"]) or "no setting"
    print(escaped(f"hub reload: read again; in force now: {changed}"))
    if answer["needs_restart"]:
        print(escaped(f"hub reload: needs a restart: {', '.join(answer['needs_restart'])}"))
    if answer["closed"]:
        print(f"hub reload: {counted(answer['closed'], 'connection')} closed: their users are gone")


def drain(
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
) -> None:
    """Move all clients off a hub, at the rate of its settings, and stop it; for admins."""
    begun = ask("drain", hub, None)
    clients = counted(begun["clients"], "client")
    print(f"hub drain: moving {clients} off, which takes about {begun['seconds']:,g} s; then the hub stops")
