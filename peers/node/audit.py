"""`Audit`: who did what to the hub, or was refused what, as events on `$hub/audit`.

```
recognised, turned away, kick, reload, drain ──────────────▶ told at once
refused publish, subscribe, ... ── first of its kind ──────▶ told at once
                               └── more of it this second ─▶ counted ── tick ─▶ told once, with `count`
```

Whoever tries a thousand times a second is told once a second for each user and reason, and at most `KINDS` of these are
told apart, of one user `KINDS_OF_USER`; the rest is one event, `others`.

An event says `what`, `at` (s since 1970), and of whom: `user`, `id`, `name`, `address`, as far as there is such. Events
reach those who subscribe and are admins, or everybody where there are no rights; the journal records them if its
`topics` name them.

Owner: the node. Invariants: no secret is ever in an event. Cost: a dictionary hit for a refusal; nothing is encoded
while nobody subscribes. Not here: logs, who may do what (`hub.policy`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Any, Final, NamedTuple

from hub.errors import RejectedError
from hub.events import AUDIT_TOPIC, Event
from hub.handler import Handler

KINDS: Final = 256
"""Most pairs of a user and a reason that are counted apart in one second."""

KINDS_OF_USER: Final = 32
"""Most of one user: else whoever is refused under many topics would keep what others try out of the audit."""


KEPT: Final = 1_024
"""How many events are kept for those who look later (`Audit.before`), 1 KiB each, about; the journal keeps more."""

_KEPT_CHARACTERS = 1_000
"""How much of a text is kept there: what an admin tells those whom he closes may be long."""

RECOGNISED: Final = "recognised"
"""Of this kind no events are kept: thousands who connect anew would leave nothing of what was refused."""


class _Kind(NamedTuple):
    """What is summed up: the same refusal of the same user."""

    what: str
    user: str
    text: str


class _Counted:
    """What came of one kind since it was told."""

    __slots__ = ("count", "fields")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.count = 0
        self.fields = fields


class Audit:
    """What is told of one hub.

    Args:
        announce: Takes an event of the hub's own.
        now_s: Returns the time, s since 1970.
    """

    def __init__(self, announce: Callable[[Event], object], now_s: Callable[[], float]) -> None:
        self._announce = announce
        self._now_s = now_s
        self._counted: dict[_Kind, _Counted] = {}
        """Kinds that were told in this second, or counted since. `tick` takes out those of which no more has come."""
        self._kinds_of: Counter[str] = Counter()
        """User → how many of these kinds are his. Who has none has no entry."""
        self._others = 0
        """How many refusals of further kinds there were since the last tick."""
        self.refused_total = 0
        """How many messages and requests were refused since the start because their user may not do that."""
        self._kept: deque[dict[str, Any]] = deque(maxlen=KEPT)
        """What was told last, the newest at the end; texts are cut."""

    # What happens at the door.

    def recognised(self, handler: Handler, how: str) -> None:
        """Somebody was recognised, and is a part of the hub now."""
        self._tell(RECOGNISED, who_did(handler) | {"how": how})

    def turned_away(self, address: str, reason: str, text: str) -> None:
        """Somebody was not recognised.

        Args:
            address: Where he is.
            reason: One of a few: it is told once a second for each.
            text: Why, without any secret.
        """
        self._count("connect", "", reason, {"address": address, "reason": reason, "text": text}, 1)

    # What somebody asks for.

    def refused(self, handler: Handler, what: str, error: RejectedError, count: int = 1) -> None:
        """A user may not do what he has asked for; there is nothing to tell of those who may do everything.

        Args:
            handler: Of the user.
            what: The kind of thing: "publish", "subscribe", "request" ...
            error: As he is told.
            count: How many messages or requests it is about.
        """
        if handler.rights is None:
            return
        self.refused_total += count
        self._count(what, handler.rights.user.name, error.text, who_did(handler) | {"text": error.text}, count)

    # What an admin does.

    def did(self, by: By | None, what: str, **fields: Any) -> None:
        """An admin has changed something; None where it was a signal."""
        self._tell(what, who_did(by) | fields)

    # Once a second.

    def tick(self) -> None:
        """Tell what was counted since the last second."""
        for kind, counted in list(self._counted.items()):
            if not counted.count:
                del self._counted[kind]
                self._kinds_of[kind.user] -= 1
                if not self._kinds_of[kind.user]:
                    del self._kinds_of[kind.user]
                continue
            self._tell("refused", counted.fields | {"action": kind.what, "count": counted.count})
            counted.count = 0
        if self._others:
            self._tell("refused", {"action": "others", "count": self._others})
            self._others = 0

    def _count(self, what: str, user: str, text: str, fields: dict[str, Any], count: int) -> None:
        kind = _Kind(what, user, text)
        counted = self._counted.get(kind)
        if counted is not None:
            counted.count += count
        elif len(self._counted) >= KINDS or (user and self._kinds_of[user] >= KINDS_OF_USER):
            self._others += count
        else:
            self._counted[kind] = _Counted(fields)
            self._kinds_of[user] += 1
            self._tell("refused", fields | {"action": what, "count": count})

    def _tell(self, what: str, fields: dict[str, Any]) -> None:
        told = {"what": what, "at": round(self._now_s(), 3)} | fields
        self._announce(Event(AUDIT_TOPIC, told))
        if what != RECOGNISED:
            self._kept.append({name: _cut(value) for name, value in told.items()})

    # What was told before.

    def before(self, at_s: float, limit: int) -> list[dict[str, Any]]:
        """Return what was told before a time, the newest first: so many events, and those of the same moment.

        Thus whoever asks for what was before the last of them misses nothing.

        Args:
            at_s: The time, s since 1970.
            limit: How many, at least 1.
        """
        found = [event for event in reversed(self._kept) if event["at"] < at_s]
        if len(found) <= limit:
            return found
        last = found[limit - 1]["at"]
        return found[:limit] + list(takewhile(lambda event: event["at"] == last, found[limit:]))


def _cut(value: Any) -> Any:
    is_long = isinstance(value, str) and len(value) > _KEPT_CHARACTERS
    return value[:_KEPT_CHARACTERS] + "…" if is_long else value


By = Handler | Mapping[str, Any]
"""Who has done something; if that was at another process of this hub, what `who_did` returns there."""


def who_did(handler: By | None) -> dict[str, Any]:
    """Return who that is, as it stands in events and in answers; None is a signal."""
    if handler is None:
        return {"user": "", "name": "signal"}
    if not isinstance(handler, Handler):
        return dict(handler)
    rights = handler.rights
    return {
        "user": rights.user.name if rights is not None else "",
        "id": handler.id,
        "name": handler.name,
        "address": handler.address,
    }
