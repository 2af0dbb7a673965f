"""`topics`: rates of topics, as a tree by their components, a level at a time.

`$hub/topics` answers every client: sums leave out topics that the asker may not subscribe to. Numbers of subscribers
are for admins. Where the hub is several processes, the one that is asked adds up the rates of all (`counted_here`).
About 2 µs a counted topic, in steps of `TOPICS_PER_STEP`, and 10 µs for each row of an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.requests.hub_services import Later, is_admin
from hub.statistics.history import merged
from hub.statistics.topic_rates import Node as TreeNode
from hub.statistics.topic_rates import Rate, first_of, found, nodes_under
from peers.admin.state import clock_of
from peers.admin.steps import Work, in_steps, parts_of, service
from peers.server.server import Server

ROWS: Final = 256  # Most rows in an answer; all others are one row
TOPICS_PER_STEP: Final = 1024  # Topics in a turn: about 2 ms
_PREFIXES_PER_STEP: Final = 128
_LONGEST_TEXT: Final = 1024


class _Question(msgspec.Struct, forbid_unknown_fields=True):
    under: Annotated[str, msgspec.Meta(max_length=_LONGEST_TEXT)] = ""
    search: Annotated[str, msgspec.Meta(max_length=_LONGEST_TEXT)] = ""


@service("null, or a map with `under` and `search`", _Question)
def topics(server: Server, asker: Handler, question: _Question) -> Later:
    """Answer null, or a map with `under`, a prefix, and `search`, a text, with rows of the tree.

    With a text these are the topics under the prefix that have it in them, without it the level right under the prefix.
    If `under` is a topic, its figures of the last ten minutes are there, too, if kept (`hub.statistics.history`).
    """
    return in_steps(server, _answered(server, asker, question))


def counted_here(server: Server, under: str) -> Work[dict[str, Any]]:
    """Return what one process has counted: `rates` of the topics under a prefix."""
    rates: list[Rate] = []
    for number, one in enumerate(server.core.topic_rates, 1):
        if one.name.startswith(under):
            rates.append(Rate(one.name, one.messages_per_s, one.bytes_per_s, one.messages + one.new_messages))
        if number % TOPICS_PER_STEP == 0:
            yield None
    return {"rates": rates, "history": server.ticker.topics.behind(under), "counted": len(server.core.topic_rates)}


def subscribers_here(server: Server, prefixes: Iterable[str]) -> Work[list[int]]:
    """Return how many clients, other hubs and Zeeks of one process get all that stands under prefixes, or topics."""
    counts = []
    for number, prefix in enumerate(prefixes, 1):
        handlers = server.core.routes.find(prefix).handlers
        counts.append(sum(not (one.is_inner or one.role is Role.LOCAL) for one in handlers))
        if number % _PREFIXES_PER_STEP == 0:
            yield None
    return counts


def _answered(server: Server, asker: Handler, question: _Question) -> Work[dict[str, Any]]:
    parts = yield from parts_of(server, "topics", question.under, lambda: counted_here(server, question.under))
    rates = yield from _visible(asker, parts)
    nodes = found(question.search, rates) if question.search else nodes_under(question.under, rates)
    yield None
    shown, others = first_of(nodes, ROWS)
    subscribers: Sequence[int | None] = [None] * len(shown)
    if is_admin(asker):
        prefixes = [one.prefix for one in shown]
        (subscribers,) = yield from parts_of(
            server, "subscribers", prefixes, lambda: subscribers_here(server, prefixes)
        )
    known = [part["history"] for part in parts if part["history"] is not None]
    is_visible = any(one.topic == question.under for one in rates)
    return {
        "at_s": server.loop.time(),
        "counted": sum(part["counted"] for part in parts) if is_admin(asker) else len(rates),
        "rows": [_row(one, count) for one, count in zip(shown, subscribers, strict=True)],
        "others": None if others is None else others._asdict(),
        "history": merged(known) | clock_of(server) if known and is_visible else None,
    }


def _visible(asker: Handler, parts: Iterable[Mapping[str, Any]]) -> Work[list[Rate]]:
    known: dict[str, Rate] = {}
    for part in parts:
        for number, told in enumerate(part["rates"], 1):
            one = Rate(*told)
            before = known.get(one.topic)
            if before is not None:
                known[one.topic] = before.plus(one)
            elif asker.rights is None or asker.rights.may(asker.acts.seeing, one.topic):
                known[one.topic] = one
            if number % TOPICS_PER_STEP == 0:
                yield None
    return list(known.values())


def _row(one: TreeNode, subscribers: int | None) -> dict[str, Any]:
    row: dict[str, Any] = one._asdict()
    row["messages"] = round(one.messages)
    for name in ("messages_per_s", "bytes_per_s"):
        row[name] = round(row[name], 3)
    row["subscribers"] = subscribers
    return row
