"""Why nothing is read of a connection: the reasons, as bits of one number. It is read exactly while there is none.

```
PUT_OFF     its share of a turn is used up, or that of all     until its turn comes (`Connection.take_turn`)
BARRED      it shows a token that nobody knows, or its user    until some time is over
            is too fast, or has too many connections, already
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

__all__ = ["BARRED", "ELSEWHERE", "JOURNAL", "NOTHING", "PACED", "PUT_OFF", "UNACTED", "UNANSWERED", "UNHEARD"]

NOTHING: Final = 0
"""It is read."""

PUT_OFF: Final = 1
BARRED: Final = 2
PACED: Final = 4
JOURNAL: Final = 8
UNANSWERED: Final = 16
ELSEWHERE: Final = 32

UNACTED: Final = PUT_OFF | BARRED
"""What was read already is not acted on either: a loop may hand over what it had read when reading was paused."""

UNHEARD: Final = BARRED | PACED | JOURNAL
"""This side keeps the far side waiting, and not the other way round: silence is no sign that it is gone."""
