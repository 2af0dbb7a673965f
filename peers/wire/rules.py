"""Bodies of RULE and UNRULE: msgpack `[request, [[[label, ...], prefix, sender], ...]]`.

The core decides what is a valid label, prefix or name (`hub.tags.rules`); here only shapes and numbers are checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, NamedTuple

import msgspec

from hub.errors import CloseCode, RejectedError
from hub.frame import encode_frame
from hub.names.grammar import LABELS_LIMIT
from hub.tags.rules import Rule
from peers.wire.kinds import Kind
from peers.wire.reasons import MALFORMED

__all__ = ["RULES_PER_FRAME", "RuleChange", "decode_rules", "encode_rules"]

RULES_PER_FRAME = 1_000
"""Most rules in one frame, as many as a client may have by default. With 32 labels each they keep the hub for 40 ms."""

RuleFields = tuple[Annotated[tuple[str, ...], msgspec.Meta(max_length=LABELS_LIMIT)], str, str]
"""The labels, the prefix and the sender of a rule, none of which has been checked."""

_Rules = tuple[
    Annotated[int, msgspec.Meta(ge=0)], Annotated[list[RuleFields], msgspec.Meta(max_length=RULES_PER_FRAME)]
]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Rules).decode


class RuleChange(NamedTuple):
    """The far side adds or removes rules by which it subscribes."""

    subscribe: bool
    """True to add the rules, False to remove them."""
    rules: list[RuleFields]
    request: int
    """The number to confirm, 0 for none."""


def encode_rules(kind: Kind, rules: Iterable[Rule], request: int = 0) -> bytes:
    """Return a RULE or UNRULE frame; request 0 asks for no confirmation."""
    return encode_frame(kind, _encode((request, list(rules))))


def decode_rules(kind: int, body: bytes) -> RuleChange:
    """Read the body of RULE or UNRULE.

    Raises:
        RejectedError: The body is no such array; the connection goes on.
    """
    try:
        request, rules = _decode(body)
    except MALFORMED as error:
        raise RejectedError(CloseCode.BAD_DATA, f"{Kind(kind).name}: {error}") from error
    return RuleChange(kind == Kind.RULE, rules, request)
