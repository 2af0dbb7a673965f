"""`Audit`: authentication, refusals and acts of admins, as events on `$hub/audit`.

Repeated refusals are published once a second for each user and reason, with `count`; at most `KINDS` are kept apart, of
one user `KINDS_OF_USER`; the others are one event, `others`. An event has `what`, `at` (s since 1970), and `user`,
`id`, `name` and `address` of its subject. It goes to subscribers that are admins, and into the journal if its `topics`
have it. No secret is ever in an event.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Any, Final, NamedTuple

from hub.errors import RejectedError
from hub.handlers.handler import Handler
from hub.statistics.events import AUDIT_TOPIC, Event

KINDS: Final = 256  # Most pairs of a user and a reason that are counted apart in one second
KINDS_OF_USER: Final = 32  # Else one user's refusals would keep those of others out of the audit
KEPT: Final = 1_024  # Events kept for `Audit.before`, about 1 KiB each; the journal keeps more
_KEPT_CHARACTERS = 1_000  # Length of texts kept there: an admin's text for closed connections may be long

# Events of this kind are not kept: thousands of reconnects would push out the refusals
RECOGNISED: Final = "recognised"


class _Kind(NamedTuple):
    what: str
    user: str
    text: str


class _Counted:
    def __init__(self, fields: dict[str, Any]) -> None:
        self.count = 0
        self.fields = fields


class Audit:
    """The audit of one hub."""

    def __init__(self, announce: Callable[[Event], object], now_s: Callable[[], float]) -> None:
        self._announce = announce
        self._now_s = now_s
        self._counted: dict[_Kind, _Counted] = {}  # Kinds that were published in this second, or counted since
        self._kinds_of: Counter[str] = Counter()  # User → how many of these kinds
        self._others = 0  # Refusals of further kinds since the last tick
        self.refused_total = 0  # Messages and requests refused for want of a right
        self._kept: deque[dict[str, Any]] = deque(maxlen=KEPT)  # The newest at the end; texts are cut

    def recognised(self, handler: Handler, how: str) -> None:
        self._tell(RECOGNISED, who_did(handler) | {"how": how})

    def turned_away(self, address: str, reason: str, text: str) -> None:
        """A client was not recognised."""
        self._count("connect", "", reason, {"address": address, "reason": reason, "text": text}, 1)

    def refused(self, handler: Handler, what: str, error: RejectedError, count: int = 1) -> None:
        """Note that a user lacks a right; handlers without rights are not audited."""
        if handler.rights is None:
            return
        self.refused_total += count
        self._count(what, handler.rights.user.name, error.text, who_did(handler) | {"text": error.text}, count)

    def did(self, by: By | None, what: str, **fields: Any) -> None:
        """An admin has changed something; None where it was a signal."""
        self._tell(what, who_did(by) | fields)

    def tick(self) -> None:
        """Publish the refusals that were counted since the last second."""
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

    def before(self, at_s: float, limit: int) -> list[dict[str, Any]]:
        """Return events before a time, s since 1970, the newest first: so many, and those of the same moment.

        Thus the next page, before the last of them, is complete.
        """
        found = [event for event in reversed(self._kept) if event["at"] < at_s]
        if len(found) <= limit:
            return found
        last = found[limit - 1]["at"]
        return found[:limit] + list(takewhile(lambda event: event["at"] == last, found[limit:]))


def _cut(value: Any) -> Any:
    is_long = isinstance(value, str) and len(value) > _KEPT_CHARACTERS
    return value[:_KEPT_CHARACTERS] + "…" if is_long else value


# Who has done something; or the result of `who_did` at another process of this hub
By = Handler | Mapping[str, Any]


def who_did(handler: By | None) -> dict[str, Any]:
    """Return the subject of an event; None is a signal."""
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
