"""What a WebSocket client does with labels: rules that it subscribes by, and what it publishes under.

No state. Cost: that of the core's, and of checking (`hub.tags.rule`).
"""

from __future__ import annotations

from collections.abc import Sequence

from hub.errors import CloseCode, InvalidNameError, InvalidTopicError, RejectedError
from hub.frame import FLAG_TAGGED
from hub.handler import Handler
from hub.labels import check_labels
from hub.names.grammar import check_name
from hub.tags.envelope import Envelope
from hub.tags.rule import check_rule
from hub.topics import check_topic
from peers.node import Node
from peers.websocket.messages import RefusedError, SubscribeRules, UnsubscribeRules

__all__ = ["change_rules", "key_of"]


def change_rules(node: Node, handler: Handler, change: SubscribeRules | UnsubscribeRules) -> RefusedError | None:
    """Subscribe a client by rules, or no longer; return why that was refused, None if it was not."""
    try:
        rules = [check_rule(rule.labels, rule.prefix, rule.sender) for rule in change.rules]
        if isinstance(change, SubscribeRules):
            node.core.subscribe_rules(handler, rules)
        else:
            node.core.rules.unsubscribe(handler, rules)
    except RejectedError as error:
        return RefusedError(error.code, error.text, change.request)
    except (InvalidTopicError, InvalidNameError) as error:
        return RefusedError(CloseCode.BAD_DATA, str(error), change.request)
    return None


def key_of(topic: str, labels: Sequence[str], sender: str, to: str) -> tuple[bytes, int]:
    """Return the key of what is published, and the flag that goes with it.

    Raises:
        InvalidTopicError, InvalidNameError: A part of it is none.
    """
    check_topic(topic)
    if not (labels or sender or to):
        return topic.encode(), 0
    sender, to = check_name(sender) if sender else "", check_name(to) if to else ""
    return Envelope(topic, check_labels(labels), sender, to).encode(), FLAG_TAGGED
