"""Why a connection ended, and whether the next one has a chance.

| code | error | again? |
|---|---|---|
| 1008 | `RejectedError`: a person must act | no |
| 1002, 1003, 1007, 1009 | `ProtocolError`: the same bytes would end the same way | no, see below |
| all others (1001, 1013, 4008, no CLOSE at all ...) | `ConnectionLostError` | yes |

A hub also closes with 1002 when its PING stayed unanswered. Where this side had heard nothing for as long as that
takes, because the process was stopped or the machine asleep, it is taken for what it is and tried again.
"""

from __future__ import annotations

from typing import NamedTuple

from hub.errors import CloseCode, ConnectionLostError, PeerError, ProtocolError, RejectedError
from peers.client.conversation import ABNORMAL

__all__ = ["Ending"]

_FINAL: dict[int, type[PeerError]] = {
    CloseCode.NOT_ALLOWED: RejectedError,
    CloseCode.PROTOCOL_ERROR: ProtocolError,
    CloseCode.WRONG_KIND: ProtocolError,
    CloseCode.BAD_DATA: ProtocolError,
    CloseCode.TOO_BIG: ProtocolError,
}


class Ending(NamedTuple):
    """How a connection ended."""

    code: int = ABNORMAL
    text: str = "the connection was lost"
    overslept: bool = False
    """Whether this side had not read for so long that the hub could take it for dead."""

    @property
    def final(self) -> bool:
        """Whether another attempt makes no sense."""
        return self.code in _FINAL and not self.overslept

    def error(self) -> PeerError:
        """Make the exception for those who wait."""
        kind = _FINAL.get(self.code, ConnectionLostError) if self.final else ConnectionLostError
        return kind(int(self.code), self.text)

    def __str__(self) -> str:
        return f"{self.text} ({int(self.code)})"
