"""`topics`: which topics bring how much, as a tree by their components, a level at a time.

Asked as `$hub/topics`, by anybody: of topics that he may not subscribe to he is told nothing, and sums leave them out.
How many get what stands at a node is told to admins alone. Owner: nobody; what is counted is the core's (`hub.census`).
Cost: about 2 µs a topic that is counted, in steps of `TOPICS_PER_STEP`, and 10 µs for each row of an answer, of which
there are `ROWS` at most.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Annotated, Any, Final

import msgspec

from hub.delivery import Role
from hub.errors import UsageError
from hub.handler import Handler
from hub.requests.hub_services import Function, is_admin
from hub.requests.later import Later
from hub.topic_tree import Node as TreeNode
from hub.topic_tree import TopicRates, first_of, found, nodes_under
from peers.admin.steps import in_steps
from peers.node.node import Node

__all__ = ["ROWS", "TOPICS_PER_STEP", "topics"]

ROWS: Final = 256
"""Most rows in an answer; all others are told together."""

TOPICS_PER_STEP: Final = 1024
"""So many topics are looked at in a turn: about 2 ms."""

_ROWS_PER_STEP: Final = 128

_LONGEST_TEXT: Final = 1024


class _Question(msgspec.Struct, forbid_unknown_fields=True):
    under: Annotated[str, msgspec.Meta(max_length=_LONGEST_TEXT)] = ""
    search: Annotated[str, msgspec.Meta(max_length=_LONGEST_TEXT)] = ""


def topics(node: Node) -> Function:
    """Return the service.

    It takes null, or a map with `under`, a prefix, and `search`, a text: with it the topics under the prefix that have
    the text in them are told, without it what stands right under the prefix.
    """

    def answer(asker: Handler, value: Any) -> Later:
        try:
            question = msgspec.convert({} if value is None else value, _Question)
        except msgspec.ValidationError as error:
            raise UsageError(f"expected null, or a map with `under` and `search`: {error}") from error
        return in_steps(node, _answered(node, asker, question))

    return answer


def _answered(node: Node, asker: Handler, question: _Question) -> Generator[None, None, dict[str, Any]]:
    census = node.core.census
    busiest, now_s = census.busiest, node.loop.time()
    rates: list[TopicRates] = []
    for number, topic in enumerate(busiest, 1):
        if topic.name.startswith(question.under) and _may_see(asker, topic.name):
            messages_per_s, bytes_per_s, excess_per_s = busiest.rates(topic, now_s)
            rates.append(TopicRates(topic.name, messages_per_s, bytes_per_s, excess_per_s, topic.messages))
        if number % TOPICS_PER_STEP == 0:
            yield
    nodes = found(question.search, rates) if question.search else nodes_under(question.under, rates)
    yield
    shown, others = first_of(nodes, ROWS)
    rows = []
    for number, one in enumerate(shown, 1):
        rows.append(_row(node, one, with_subscribers=is_admin(asker)))
        if number % _ROWS_PER_STEP == 0:
            yield
    return {
        "at_s": now_s,
        "counted": len(busiest) if is_admin(asker) else len(rates),
        "places": busiest.places if census.is_on else 0,
        "forgotten_total": busiest.forgotten_total,
        "looked_at_one_in": census.every,
        "rows": rows,
        "others": None if others is None else others._asdict(),
    }


def _may_see(asker: Handler, topic: str) -> bool:
    return asker.rights is None or asker.rights.may(asker.acts.seeing, topic)


def _row(node: Node, one: TreeNode, *, with_subscribers: bool) -> dict[str, Any]:
    row: dict[str, Any] = one._asdict()
    row["messages"] = round(one.messages)
    for name in ("messages_per_s", "bytes_per_s", "excess_per_s"):
        row[name] = round(row[name], 3)
    row["subscribers"] = _subscribers(node, one.prefix) if with_subscribers else None
    return row


def _subscribers(node: Node, prefix: str) -> int:
    """Return how many clients, peer hubs and Zeeks get all that stands under a prefix, or a topic."""
    return sum(handler.role is not Role.LOCAL for handler in node.core.routes.find(prefix).handlers)
