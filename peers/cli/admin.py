"""Commands that ask the hub itself: `hub who`, `users`, `names`, `mesh`, `trace`; `kick`, `reload`, `drain`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from cyclopts import Parameter

from hub.topics import RESERVED
from peers.cli.contexts import DEFAULT_HUB, HubFlags, Json
from peers.cli.notices import Notices
from peers.cli.texts import Cell, FlagError, columns, counted, escaped, print_json
from peers.wire.control import CLOSE_TEXT_LIMIT_BYTES

_TIMEOUT_S = 10.0
_PAGE = 1_000
"""Connections that are requested at once, about 400 KiB: 10,000 take ten answers."""


Rows = list[dict[str, Any]]


async def ask(command: str, hub: HubFlags, value: Any, *, topic: str = "") -> Any:
    """Send a request to a service of the hub, `$hub/` and the name of the command or `topic`; return its answer."""
    async with Notices(command).connected(hub, once=True) as client:
        return await client.request(RESERVED + (topic or command), value, timeout_s=_TIMEOUT_S)


async def ask_pages(command: str, hub: HubFlags, value: dict[str, Any], key: str, *, topic: str = "") -> Rows:
    """Ask as `ask` for pages, each after the `key` of the last row, until one is empty; return all rows."""
    rows: list[dict[str, Any]] = []
    async with Notices(command).connected(hub, once=True) as client:
        while True:
            place = {"after": rows[-1][key]} if rows else {}
            found = await client.request(RESERVED + (topic or command), value | place)
            rows += found
            if not found:
                return rows


Columns = Mapping[str, str | Callable[[dict[str, Any]], Cell]]
"""The columns of a table: heading, and the field of a row or a function of it."""


def table(rows: list[dict[str, Any]], shown: Columns) -> list[str]:
    cells = [[row[cell] if isinstance(cell, str) else cell(row) for cell in shown.values()] for row in rows]
    return columns(tuple(shown), cells)


def print_rows(rows: list[dict[str, Any]], shown: Columns, *, json: bool) -> None:
    """Print rows as a table, or as a JSON object a line."""
    if json:
        print_json(*rows)
    else:
        for line in table(rows, shown):
            print(line)


_WHO: Columns = {
    "id": "id",
    "user": "user",
    "by": "how",
    "role": "role",
    "name": "name",
    "over": "protocol",
    "address": "address",
    "since (UTC)": lambda row: _time(row["since"]),
    "prefixes": "prefixes",
    "in": "published_messages",
    "out": "delivered_messages",
    "queued": "queued_messages",
    "queued bytes": "queued_bytes",
    "dropped": "dropped_messages",
}


def _time(since_s: float) -> str:
    return f"{datetime.fromtimestamp(since_s, UTC):%Y-%m-%d %H:%M:%S}"


async def who(
    user: Annotated[
        str | None, Parameter(help="Only connections of this user. Default: all.", show_default=False)
    ] = None,
    /,
    *,
    hub: HubFlags = DEFAULT_HUB,
    json: Json = False,
) -> None:
    """List the connections of a hub, for admins. Counts are messages since each has connected."""
    of_user = {} if user is None else {"user": user}
    print_rows(await ask_pages("who", hub, {"limit": _PAGE} | of_user, "id"), _WHO, json=json)


_USERS: Columns = {
    "user": "user",
    "roles": lambda row: ", ".join(row["roles"]),
    "connections": "connections",
    "queued bytes": "queued_bytes",
    "in": "published_messages",
    "dropped": "dropped_messages",
}


async def users(*, hub: HubFlags = DEFAULT_HUB, json: Json = False) -> None:
    """List the users of a hub, for admins: users of its policy, and other connected users.

    `-` means all users without rights of their own: nothing is charged to them.
    """
    print_rows(await ask_pages("users", hub, {}, "user"), _USERS, json=json)


async def names(
    prefix: Annotated[str, Parameter(help="Only names with this prefix.")] = "",
    /,
    *,
    hub: HubFlags = DEFAULT_HUB,
    json: Json = False,
) -> None:
    """List the service names that a hub knows, including those of its peers."""
    async with Notices("names").connected(hub) as client:
        found = [each._asdict() | {"hub": each.hub.hex()} for each in await client.names(prefix)]
        own_id = client.hub.id.hex() if client.hub else ""
    if not found and sys.stderr.isatty():  # for people: a program sees that there is no line
        begins = f" that begins with {prefix}" if prefix else ""
        print(escaped(f"hub names: the hub knows no name{begins}"), file=sys.stderr)
    if json:
        print_json(*found)
        return
    for row in found:
        row["owner"] = f"client {row['owner']}" + (f" of {row['hub']}" if row["hub"] != own_id else "")
    widths = [max((len(row[column]) for row in found), default=0) for column in ("name", "owner")]
    show = escaped if sys.stdout.isatty() else str
    for row in found:
        print(show(f"{row['name']:{widths[0]}}  {row['owner']:{widths[1]}}  {', '.join(row['labels'])}".rstrip()))


async def kick(
    connection: Annotated[int | None, Parameter(help="The id that `hub who` shows.", show_default=False)] = None,
    /,
    *,
    user: Annotated[
        str | None, Parameter(help="All connections of this user, except this one.", show_default=False)
    ] = None,
    text: Annotated[str, Parameter(help="Reason sent to the client, up to 123 bytes.", show_default=False)] = "",
    hub: HubFlags = DEFAULT_HUB,
) -> None:
    """Close a connection, or all connections of a user, for admins.

    The close code is 4403, after which clients do not reconnect by themselves. To keep a user out, remove the user from
    the policy, or revoke the token.
    """
    if (connection is None) is (user is None):
        raise FlagError("give either the ID of a connection, which `hub who` shows, or --user")
    if len(text.encode("utf-8", "replace")) > CLOSE_TEXT_LIMIT_BYTES:
        raise FlagError(f"--text: at most {CLOSE_TEXT_LIMIT_BYTES} bytes")
    order: dict[str, Any] = {"id": connection} if user is None else {"user": user}
    answer = await ask("kick", hub, order | ({"text": text} if text else {}))
    print(f"hub kick: {counted(answer['kicked'], 'connection')} closed")


async def reload(
    *,
    force: Annotated[
        bool, Parameter(help="Also if the policy closes more than `access.reload_closes` allows.")
    ] = False,
    hub: HubFlags = DEFAULT_HUB,
) -> None:
    """Reload settings, policy, tokens and certificates of a hub, as SIGHUP does; for admins.

    Prints what has changed, or why nothing has.
    """
    answer = await ask("reload", hub, {"force": True} if force else None)
    changed = ", ".join(answer["changed"]) or "none"
    print(escaped(f"hub reload: users, certificates and settings are read again; changed settings: {changed}"))
    if answer["needs_restart"]:
        print(escaped(f"hub reload: needs a restart: {', '.join(answer['needs_restart'])}"))
    if answer["closed"]:
        print(f"hub reload: {counted(answer['closed'], 'connection')} closed: their users are gone")


async def drain(*, hub: HubFlags = DEFAULT_HUB) -> None:
    """Move all clients off a hub, at the rate of its settings, and stop it; for admins."""
    begun = await ask("drain", hub, None)
    clients = counted(begun["clients"], "client")
    print(f"hub drain: moving {clients} off, which takes about {begun['seconds']:,g} s; then the hub stops")


def known_ways(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the hubs that want the topic, the nearest first, each with the hubs of its path, including both ends.

    The path is empty where there is none, or where the mesh has changed between pages.
    """
    of = {row["hub"]: row for row in rows}
    found = []
    for row in rows:
        if row["wants"]:
            way = _way(of, row)
            steps = [{"hub": step["hub"], "name": step["name"]} for step in way]
            barred = any(step["barred"] for step in way)
            cost = row["cost"] if way else None
            found.append({"hub": row["hub"], "name": row["name"], "cost": cost, "barred": barred, "way": steps})
    return sorted(found, key=lambda one: (one["cost"] is None, one["cost"], one["hub"]))


def _way(of: dict[str, dict[str, Any]], row: dict[str, Any]) -> list[dict[str, Any]]:
    way = [row]
    while not way[-1]["own"]:
        before = of.get(way[-1]["before"])
        if before is None or len(way) > len(of):
            return []
        way.append(before)
    return way[::-1]


def _way_text(row: dict[str, Any]) -> str:
    way = row["way"]
    if not way:
        return "none: it cannot be reached"
    text = " > ".join(step["name"] or step["hub"] for step in way) if len(way) > 1 else "this hub"
    return text + (" (not sent: this link may not take it)" if row["barred"] else "")


WAYS: Columns = {
    "hub": "hub",
    "name": "name",
    "hops": lambda row: len(row["way"]) - 1 if row["way"] else "-",
    "cost": lambda row: row["cost"] if row["way"] else "-",
    "way": _way_text,
}


async def trace(
    topic: Annotated[str, Parameter(help="Topic to trace, for a message published at this hub.")],
    /,
    *,
    hub: HubFlags = DEFAULT_HUB,
    json: Json = False,
) -> None:
    """Show which hubs want a topic, and the path to each, as the hub at --url knows them. For admins."""
    ways = known_ways(await ask_pages("trace", hub, {"topic": topic}, "hub", topic="mesh/trace"))
    if not ways and sys.stderr.isatty():  # for people: a program sees that there is no line
        print(escaped(f"hub trace: no hub subscribes to {topic}, as far as this hub knows"), file=sys.stderr)
    print_rows(ways, WAYS, json=json)


_HUBS: Columns = {
    "hub": "hub",
    "name": "name",
    "prefixes": lambda row: "everything" if row["incomplete"] else row["prefixes"],
    "links": lambda row: len(row["links"]),
    "reachable": lambda row: (
        "this hub" if row["own"] else "yes" if row["lost"] is None else f"no, since {_time(row['lost'])} UTC"
    ),
}
_OWN_LINKS: Columns = {
    "own link to": "hub",
    "name": "name",
    "cost": lambda row: row["link"]["cost"],
    "lag ms": lambda row: None if row["link"]["lag_s"] is None else round(row["link"]["lag_s"] * 1000),
    "in": lambda row: row["link"]["received_messages"],
    "out": lambda row: row["link"]["sent_messages"],
    "queued": lambda row: row["link"]["queued_messages"],
    "dropped": lambda row: row["link"]["dropped_messages"],
    "paths": lambda row: row["link"]["path_changes"],
}
_LINKS = ("link between", "name", "and", "name", "cost")
_ZEEKS = ("zeek", "of hub", "name", "gateway")


async def mesh(
    *,
    hub: HubFlags = DEFAULT_HUB,
    json: Annotated[bool, Parameter(help="A JSON object a line, for each hub with its links.")] = False,
) -> None:
    """Show the hubs of a mesh and their links, as the hub at --url knows them."""
    rows = await ask_pages("mesh", hub, {}, "hub", topic="mesh/graph")
    if json:
        print_json(*rows)
    else:
        print(*mesh_lines(rows), sep="\n")


def mesh_lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield from table(rows, _HUBS)
    own_links = table([row for row in rows if row["link"] is not None], _OWN_LINKS)
    for lines in columns(_LINKS, list(_links(rows))), columns(_ZEEKS, list(_zeeks(rows))), own_links:
        if lines:
            yield ""
            yield from lines


def _links(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str, str, str, int]]:
    """Yield each link once, although both of its hubs have it, unless one is unknown since its page was made."""
    names = {row["hub"]: row["name"] for row in rows}
    for row in rows:
        one = row["hub"]
        for other, cost in row["links"].items():
            if one < other or other not in names:
                yield one, names[one], other, names.get(other, ""), cost


def _zeeks(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str, str, str]]:
    """Yield each Zeek once for each hub that has it; only one of them (the gateway) brings its messages."""
    zeeks = [(zeek, row, is_gateway) for row in rows for zeek, is_gateway in row.get("zeeks", {}).items()]
    for zeek, row, is_gateway in sorted(zeeks, key=lambda each: (each[0], not each[2])):
        yield zeek, row["hub"], row["name"], "yes" if is_gateway else "no"
