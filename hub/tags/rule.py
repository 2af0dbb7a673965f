"""`Rule`: what a subscriber by rule asks for.

A message matches when all labels of the rule are among its own, its topic begins with the rule's prefix, and, if the
rule names a sender, it bears that name. A rule has a label or a sender: without either it would be a plain
subscription, which is what it should be then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hub.errors import InvalidNameError
from hub.labels import check_labels
from hub.names.grammar import check_name
from hub.topics import check_prefix, printable

__all__ = ["Rule", "characters", "check_rule"]


class Rule(NamedTuple):
    """What one subscriber asks for: labels, a prefix, a sender."""

    labels: tuple[str, ...]
    """The labels that a message must bear, ascending, each once."""
    prefix: str = ""
    sender: str = ""


def characters(rule: Rule) -> int:
    """Return how much text a rule holds that is kept for it."""
    return sum(map(len, rule.labels)) + len(rule.prefix)


def check_rule(labels: Iterable[str], prefix: str = "", sender: str = "") -> Rule:
    """Return a rule that can be subscribed to.

    Raises:
        InvalidTopicError: The prefix is none.
        InvalidNameError: A label or the sender is none, the labels are too many, or there is neither.
    """
    rule = Rule(check_labels(labels), check_prefix(prefix), check_name(sender) if sender else "")
    if not rule.labels and not rule.sender:
        shown = printable(prefix)
        raise InvalidNameError(f"a rule has a label or a sender; without them, subscribe to the prefix {shown} itself")
    return rule
