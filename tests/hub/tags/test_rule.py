"""What a rule may be."""

from __future__ import annotations

import pytest

from hub.errors import InvalidNameError, InvalidTopicError
from hub.tags.rules import Rule, check_rule


def test_equal_rules_are_equal() -> None:
    assert check_rule(["b", "a", "b"], "/x") == Rule(("a", "b"), "/x") == check_rule(("a", "b"), "/x")


def test_a_rule_of_a_sender_needs_no_label() -> None:
    assert check_rule([], sender="a.b") == Rule((), "", "a.b")


def test_without_label_and_sender_it_is_a_subscription() -> None:
    with pytest.raises(InvalidNameError, match="subscribe to the prefix '/x' itself"):
        check_rule([], "/x")


def test_each_part_is_checked() -> None:
    with pytest.raises(InvalidTopicError, match="control character"):
        check_rule(["a"], "/\n")
    with pytest.raises(InvalidNameError, match="label is empty"):
        check_rule([""])
    with pytest.raises(InvalidNameError, match="name 'x' is none"):
        check_rule(["a"], sender="x")
    with pytest.raises(InvalidNameError, match="33 labels"):
        check_rule(map(str, range(33)))
