"""Why nothing is read of a connection: the reasons, as bits of one number. It is read exactly while there is none.

```
PUT_OFF     its share of a turn is used up, or that of all     until its turn comes (`OwnShare.take_turn`)
ENTERING    its user is too fast already as it enters, or      until he may publish again, or its end
            has too many connections
BARRED      it has shown a token that nobody knows             until some time is over
PACED       its user publishes faster than he may              until he may again (`peers.connections.pacing`)
JOURNAL     it feeds a journal that is behind                  until that has caught up
UNANSWERED  it has made this side answer, and reads nothing    until it reads
ELSEWHERE   its conversation waits for something elsewhere     until that has happened (`Connection.go_on`)
```

Several may hold at once, and each goes by itself: what ends one does not let a connection be read on against another.
They stand in one number of the connection, so that a read costs one test of it, and a connection no object more.

Owner: the connection, which pauses its transport with each reason that comes, and lets it go on as the last one goes.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "BARRED",
    "ELSEWHERE",
    "ENTERING",
    "JOURNAL",
    "KEPT_OUT",
    "NOTHING",
    "PACED",
    "PUT_OFF",
    "UNACTED",
    "UNANSWERED",
    "UNHEARD",
]

NOTHING: Final = 0
"""It is read."""

PUT_OFF: Final = 1
ENTERING: Final = 2
BARRED: Final = 4
PACED: Final = 8
JOURNAL: Final = 16
UNANSWERED: Final = 32
ELSEWHERE: Final = 64

KEPT_OUT: Final = ENTERING | BARRED
"""What comes next waits however much is left of a turn."""

UNACTED: Final = PUT_OFF | KEPT_OUT
"""What was read already is not acted on either: a loop may hand over what it had read when reading was paused."""

UNHEARD: Final = KEPT_OUT | PACED | JOURNAL
"""This side keeps the far side waiting, and not the other way round: silence is no sign that it is gone."""
