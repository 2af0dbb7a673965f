"""Commands of all kinds for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from peers.values import encode
from peers.values.layout import Tag
from peers.zeek.broker.stores import command as wire
from tests.values.generated import VALUES

_BODIES = VALUES.map(encode)
_ENTITIES = st.binary(min_size=24, max_size=24)
_NUMBERS = st.integers(0, (1 << 64) - 1)
_EXPIRIES = st.none() | st.integers(-(1 << 63), (1 << 63) - 1)
_TICKS = st.integers(0, (1 << 16) - 1)
_ENTRIES = st.dictionaries(_BODIES, _BODIES, max_size=5).map(lambda entries: tuple(entries.items()))

CONTENTS: st.SearchStrategy[wire.Content] = st.one_of(
    st.builds(wire.Put, _BODIES, _BODIES, _EXPIRIES, _ENTITIES),
    st.builds(wire.PutUnique, _BODIES, _BODIES, _EXPIRIES, _ENTITIES, _NUMBERS, _ENTITIES),
    st.builds(wire.PutUniqueResult, st.booleans(), _ENTITIES, _NUMBERS, _ENTITIES),
    st.builds(wire.Erase, _BODIES, _ENTITIES),
    st.builds(wire.Expire, _BODIES, _ENTITIES),
    st.builds(wire.Add, _BODIES, _BODIES, st.sampled_from(Tag), _EXPIRIES, _ENTITIES),
    st.builds(wire.Subtract, _BODIES, _BODIES, _EXPIRIES, _ENTITIES),
    st.builds(wire.Clear, _ENTITIES),
    st.builds(wire.AttachWriter, _NUMBERS, _TICKS),
    st.builds(wire.Keepalive, _NUMBERS),
    st.builds(wire.CumulativeAck, _NUMBERS),
    st.builds(wire.Nack, st.lists(_NUMBERS, max_size=200).map(tuple)),
    st.builds(wire.AckClone, _NUMBERS, _TICKS, _ENTRIES),
    st.builds(wire.RetransmitFailed, _NUMBERS),
)

COMMANDS: st.SearchStrategy[wire.Command] = st.builds(wire.Command, _NUMBERS, _ENTITIES, _ENTITIES, CONTENTS)
