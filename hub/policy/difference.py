"""`Differences`: what users may do by one policy and not by another.

All that two policies say of a user changes only at the paths that they name for him: what lies beneath a path is
decided by the most specific path that covers it. So it is enough to ask both at each path that one of them names.

```
roles by both policies ─▶ paths, found once for all users who have these ─▶ for each user: both asked, path by path
```

Owner: whoever compares. Invariants: it works in steps, and says how much each was; after `MOST_DECISIONS` nobody is
compared any more. Cost: 0.4 µs for each place that is passed on the way to paths, 4 µs for each path of each user.

Not here: what somebody holds at present (`hub.review`).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple

from hub.policy.path import USER
from hub.policy.policy import Action, Rights

__all__ = ["MOST_DECISIONS", "PASSED_PLACES", "Difference", "Differences"]

PASSED_PLACES: Final = 5_000
"""Most places of the tree of grants that are passed for the paths of one action, in each policy: 2 ms."""

MOST_DECISIONS: Final = 300_000
"""Most times that both policies are asked, for all users together: 1.5 s."""

_STEP = 100
"""How many decisions are one step."""

_KEPT = 256
"""Of how many pairs of sets of roles paths are kept; when there are more, all are forgotten and found again."""

_LOOKED = 200
"""Units for paths that are looked for: as if half of the places that may be passed were."""

Roles = frozenset[str]


class Difference(NamedTuple):
    """What another policy would change for one user."""

    loses: tuple[tuple[Action, str], ...] = ()
    """What he might do, and might no more: at these paths, and beneath them where no further path is named."""
    gains: tuple[tuple[Action, str], ...] = ()
    is_complete: bool = True
    """Whether all was compared: there were not too many paths."""


class Differences:
    """The differences of some users."""

    def __init__(self) -> None:
        self._decisions = 0
        """How often both policies were asked."""
        self._paths: dict[tuple[Action, Roles, Roles], tuple[str, ...] | None] = {}
        """The paths at which users with these roles, by either policy, may be treated otherwise; None: too many."""

    def of(self, before: Rights, after: Rights) -> Generator[int, None, Difference]:
        """Compare what one user may do by two policies, of which each has its rights of him.

        Yields:
            How much was done since the last step; 1 is about 4 µs.
        """
        loses: list[tuple[Action, str]] = []
        gains: list[tuple[Action, str]] = []
        is_complete = True
        for action in Action:
            paths = yield from self._paths_of(action, before, after)
            if paths is None or self._decisions + len(paths) > MOST_DECISIONS:
                is_complete = False
                continue
            self._decisions += len(paths)
            for number, path in enumerate(paths, 1):
                named = path.replace(USER, after.user.name)
                might, may = before.may(action, named), after.may(action, named)
                if might is not may:
                    (loses if might else gains).append((action, named))
                if not number % _STEP:
                    yield _STEP
            yield len(paths) % _STEP
        return Difference(tuple(dict.fromkeys(loses)), tuple(dict.fromkeys(gains)), is_complete)

    def _paths_of(self, action: Action, before: Rights, after: Rights) -> Generator[int, None, tuple[str, ...] | None]:
        key = (action, before.user.roles, after.user.roles)
        if key not in self._paths:
            found: set[str] = set()
            is_complete = True
            for rights in (before, after):
                paths = rights.policy.rights(USER, rights.user.roles).paths(action, PASSED_PLACES)
                yield _LOOKED
                if paths is None:
                    is_complete = False
                else:
                    found.update(path for path, _ in paths)
            if len(self._paths) >= _KEPT:
                self._paths.clear()
            self._paths[key] = tuple(sorted(found)) if is_complete else None
        return self._paths[key]
