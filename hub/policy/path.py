"""`Path`: what a grant is for: some components, and everything beneath them.

```
"/zeek"            covers /zeek, /zeek/dns, /zeek/dns/7; never /zeekling, never zeek
"/status/{user}"   covers /status/alice and what is beneath it, for the user alice
"*"                covers everything but the hub's own topics
"org.example"      of a name: covers org.example and org.example.Player
```

A topic is cut at each slash and nothing else is done to it: no percent signs are decoded, no `..` is resolved, no case
and no form of Unicode is changed. A path that looks as if its author expected any of that is an error, and so is one
that could be misread: an empty component, a slash at the end, `*` within.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from hub.errors import InvalidTopicError
from hub.topics import RESERVED, check_prefix, printable

TOPICS = "/"  # Separator of the components of a topic

NAMES = "."  # Separator of the elements of a service name

EVERYTHING = "*"  # The path without components. It does not cover the hub's own topics under `$hub/`

OWN = RESERVED.rstrip(TOPICS)  # First component of the hub's own topics: `EVERYTHING` is not for these

USER = "{user}"  # Stands for a component that is the user's name

_ODD = frozenset({"", ".", ".."})
_MARKS = re.compile("[*{}]")


class Path(NamedTuple):
    """The components of a grant, and its text."""

    components: tuple[str, ...]  # `USER` among them stands for the user's name. Empty for `EVERYTHING`
    text: str


def parse_path(text: str, separator: str = TOPICS) -> Path:
    """Read a path of topics or names, by the separator.

    Raises:
        InvalidTopicError: It is no path, or one that would not mean what it seems to; the text says what to write.
    """
    if text == EVERYTHING:
        return Path((), text)
    check_prefix(text)
    if not text:
        raise InvalidTopicError(f"the path is empty; write {EVERYTHING!r} for everything")
    if text.endswith(separator):
        bare, shown = printable(text.rstrip(separator) or EVERYTHING), printable(text)
        raise InvalidTopicError(f"path {shown} ends with {separator!r}; write {bare}, which covers what is beneath it")
    components = tuple(text.split(separator))
    checked = components[1:] if text.startswith(TOPICS) else components
    if not _ODD.isdisjoint(checked) or _MARKS.search(text):
        for component in checked:
            _check(component, printable(text), separator)
    return Path(components, text)


def _check(component: str, shown: str, separator: str) -> None:
    if not component:
        raise InvalidTopicError(f"path {shown} has an empty component: two {separator!r} without anything between them")
    if component in _ODD:
        raise InvalidTopicError(f"path {shown} has the component {component!r}, which is nothing special in a topic")
    if "*" in component:
        raise InvalidTopicError(
            f"path {shown}: {EVERYTHING!r} stands alone; a path covers what is beneath it without it"
        )
    if component != USER and ("{" in component or "}" in component):
        raise InvalidTopicError(f"path {shown}: {printable(component)} is no component; only {USER!r}, as a whole one")
