"""Why a connection ended, and what follows from that."""

from __future__ import annotations

import pytest

from hub.errors import CloseCode, ConnectionLostError, PeerError, ProtocolError, RejectedError
from peers.client.connection import Ending

FINAL = {
    CloseCode.NOT_ALLOWED: RejectedError,
    CloseCode.NOT_RECOGNISED: RejectedError,
    CloseCode.FORBIDDEN: RejectedError,
    CloseCode.PROTOCOL_ERROR: ProtocolError,
    CloseCode.WRONG_KIND: ProtocolError,
    CloseCode.BAD_DATA: ProtocolError,
    CloseCode.TOO_BIG: ProtocolError,
}


@pytest.mark.parametrize("code", list(CloseCode))
def test_codes(code: CloseCode) -> None:
    """Codes that another attempt would meet again are final and have their own error; all others are tried again."""
    ending = Ending(code, "because")
    assert ending.final == (code in FINAL)
    error = ending.error()
    expected: type[PeerError] = FINAL.get(code, ConnectionLostError)
    assert type(error) is expected
    assert (error.code, error.text) == (int(code), "because")
    assert str(ending) == f"because ({int(code)})"


def test_no_code() -> None:
    assert Ending().code == 1006
    assert not Ending().final


def test_overslept() -> None:
    ending = Ending(CloseCode.PROTOCOL_ERROR, "no answer to PING", overslept=True)
    assert not ending.final
    assert type(ending.error()) is ConnectionLostError


@pytest.mark.parametrize("code", FINAL.keys() - {CloseCode.PROTOCOL_ERROR})
def test_sent_away_while_asleep(code: CloseCode) -> None:
    """A sleep excuses nothing else: whose user is gone, or who was kicked, does not try again, and is told why."""
    ending = Ending(code, "you are gone", overslept=True)
    assert ending.final
    assert type(ending.error()) is FINAL[code]
