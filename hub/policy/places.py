"""`Places`: where the rules of a policy stand, for people who look for the one that has decided.

```
Grant(role="sensor", path="/zeek", allowed) ─▶ Place("policy.toml", ("roles", "sensor", "publish", 0)) ─▶ line 2
```

Owner: the policy. Invariants: it is of the text that the policy was made from, whatever stands in the file since.
Memory: the lists of paths, 8 bytes a rule, as their texts are those of the grants; and the text itself, up to
`KEPT_CHARACTERS`, since lines are found only when somebody asks. Cost: O(rules of one role) for a place; a line as
`hub.policy.lines`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from hub.policy.lines import Keys, line_of
from hub.topics import printable

__all__ = ["KEPT_CHARACTERS", "NOWHERE", "Place", "Places"]

KEPT_CHARACTERS: Final = 1024 * 1024
"""Of a longer text no lines are told, only the keys that lead to a rule: 20,000 rules are about as long."""

_SHOWN_KEY = 64
_LINK = ("bring", "take")


class Place(NamedTuple):
    """Where something stands."""

    source: str
    """The file; empty for what is built in."""
    keys: Keys

    @property
    def text(self) -> str:
        """The keys, as errors have them: `roles.sensor.publish.allow[0]`; empty for what is built in."""
        shown = ""
        for key in self.keys:
            if isinstance(key, int):
                shown += f"[{key}]"
            else:
                plain = key if key.isprintable() and len(key) <= _SHOWN_KEY else printable(key)
                shown += f".{plain}" if shown else plain
        return shown


_BUILT_IN = Place("", ())


class Places:
    """Where the rules of one policy stand.

    Args:
        source: The file, or what else people know it by.
        tree: What was read from it, and was right.
        text: From which the tree was read; empty if that is not known.
    """

    __slots__ = ("_limits", "_roles", "_text", "source")

    def __init__(self, source: str, tree: Mapping[str, Any], text: str = "") -> None:
        self.source = source
        self._roles: Mapping[str, Any] = tree.get("roles", {})
        self._limits: Mapping[str, Any] = tree.get("limits", {})
        self._text = text if len(text) <= KEPT_CHARACTERS else ""

    def grant(self, role: str, action: str, path: str, *, allowed: bool) -> Place:
        """Return where a path of a role stands.

        Args:
            role: Its name.
            action: What the path is for, such as "publish" or "bring".
            path: As it stands there.
            allowed: Whether it is one that is allowed.
        """
        if role not in self._roles:
            return _BUILT_IN
        keys: Keys = ("roles", role, *(("link",) if action in _LINK else ()), action)
        found: Any = self._roles[role]
        for key in keys[2:]:
            found = found[key]
        if isinstance(found, Mapping):
            verdict = "allow" if allowed else "deny"
            keys, found = (*keys, verdict), found[verdict]
        return Place(self.source, (*keys, found.index(path)))

    def admin(self, role: str) -> Place:
        """Return where it stands that a role may administer the hub."""
        return Place(self.source, ("roles", role, "admin")) if role in self._roles else _BUILT_IN

    def limit(self, kind: str, name: str, key: str) -> Place:
        """Return where a limit stands.

        Args:
            kind: "users" or "roles".
            name: Of the user or role.
            key: What is limited.
        """
        return Place(self.source, ("limits", kind, name, key))

    def line(self, place: Place) -> int | None:
        """Return the line of a place, from 1; None where that is not known."""
        return line_of(self._text, place.keys) if self._text and place.keys else None

    def pieces(self) -> Iterator[object]:
        """Yield what it is made of, to be let go of one by one."""
        yield from self._roles.values()


NOWHERE = Places("", {})
"""Of a policy that nobody has written."""
