"""What a path of a grant may look like."""

from __future__ import annotations

import pytest

from hub.errors import InvalidTopicError
from hub.policy.grants import EVERYTHING, NAMES, parse_path


@pytest.mark.parametrize(
    ("text", "components"),
    [
        (EVERYTHING, ()),
        ("/zeek", ("", "zeek")),
        ("zeek/event", ("zeek", "event")),
        ("/status/{user}/x", ("", "status", "{user}", "x")),
        ("{user}", ("{user}",)),
        ("$hub/clients", ("$hub", "clients")),
        ("/a b/\N{GREEK SMALL LETTER ALPHA}", ("", "a b", "\N{GREEK SMALL LETTER ALPHA}")),
        ("/...", ("", "...")),
    ],
)
def test_components(text: str, components: tuple[str, ...]) -> None:
    assert parse_path(text).components == components


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "write '*'"),
        ("/", "write '*'"),
        ("//", "write '*'"),
        ("/zeek/", "write '/zeek'"),
        ("/zeek//", "write '/zeek'"),
        ("/zeek//dns", "empty component"),
        ("//zeek", "empty component"),
        ("/a/../b", "nothing special"),
        ("/a/./b", "nothing special"),
        ("..", "nothing special"),
        ("/*", "stands alone"),
        ("/zeek/*", "stands alone"),
        ("/zeek/d*", "stands alone"),
        ("**", "stands alone"),
        ("/a/{user}s", "as a whole one"),
        ("/a/{User}", "as a whole one"),
        ("/a/{name}", "as a whole one"),
        ("/a/{", "as a whole one"),
        ("/a/user}", "as a whole one"),
        ("/a/{{user}}", "as a whole one"),
        ("/a\nb", "U+000A"),
        ("/a\0b", "U+0000"),
        ("/a\x7f", "U+007F"),
        ("/" + "a" * 1024, "1024"),
        ("/\ud800", "U+D800"),
    ],
)
def test_what_would_not_mean_what_it_seems_to(text: str, told: str) -> None:
    with pytest.raises(InvalidTopicError) as refused:
        parse_path(text)
    assert told in str(refused.value)


@pytest.mark.parametrize("text", ["org.example.", ".org", "org..example", "org.*"])
def test_names(text: str) -> None:
    with pytest.raises(InvalidTopicError):
        parse_path(text, NAMES)
