"""ACCOUNT: what is written is what is read; later versions may add fields; anything else ends the conversation."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import ProtocolError
from peers.wire.control import LINK_ID_BYTES, Account, decode_account, encode_account
from peers.wire.kinds import IGNORABLE, Kind
from tests.wire.pair import frames_of

_counts = st.integers(0, 2**63)


@given(
    account=st.builds(
        Account,
        link=st.binary(min_size=LINK_ID_BYTES, max_size=LINK_ID_BYTES),
        sent=_counts,
        arrived=_counts,
        last=st.booleans(),
    )
)
def test_round_trip(account: Account) -> None:
    (frame,) = frames_of(encode_account(account))
    assert frame.kind == Kind.ACCOUNT
    assert frame.kind & IGNORABLE
    assert decode_account(frame.body) == account


def test_unknown_fields() -> None:
    body = msgpack.packb({"link": b"12345678", "sent": 1, "what": "new"})
    assert decode_account(body) == Account(b"12345678", 1)


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", msgpack.packb({}), msgpack.packb({"link": b"1", "sent": -1}), b"\x91" * 5000]
)
def test_what_is_no_account(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="ACCOUNT"):
        decode_account(body)
