"""`Question`: what one hub asks another one about named consumers, for a client of its own: `$hub/at/ID/consumers`.

```
client ─ $hub/consumers/take ─▶ its hub ─ Question ─▶ hubs on the way: pass_on ─▶ the hub that records
```

Each hub on the way adds what its links grant, both ends among them, and how much they take. The hub that records judges
by all of that together, each time: so nothing reaches a client that somebody on the way would not let him have.

Owner: nobody; no state. Cost: where nothing is restricted, reading and writing a small map; else as narrowing a FETCH.
Not here: who asks (`peers.journal.consumers.far_consumers`), who answers (`peers.journal.consumers.for_hubs`).
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from hub.errors import CloseCode, RejectedError
from hub.handler import Handler
from hub.policy.policy import Action, Rights
from hub.topics import RESERVED, printable
from peers.journal.forms import GRANTED_LIMIT, NARROWED_PATHS, Paths
from peers.wire.malformed import MALFORMED

__all__ = [
    "ANSWER_MS",
    "CONSUMERS_TOPIC",
    "GONE",
    "QUESTIONS",
    "WHAT",
    "Granted",
    "Question",
    "decode_question",
    "encode_question",
    "granted_by",
    "pass_on",
]

CONSUMERS_TOPIC: Final = RESERVED + "consumers"

WHAT: Final = "consumers"
"""What hubs ask each other for (`hub.requests.directed`)."""

QUESTIONS: Final = ("join", "take", "acknowledge", "nak", "in_progress", "leave", "remove", "commit")
"""What clients ask under `$hub/consumers/`; nothing behind it asks how all consumers stand."""

GONE: Final = "gone"
"""What their hub says when one of them is connected no more."""

ANSWER_MS: Final = 30_000
"""How long an answer may take, ms, beside the time for which a `take` waits."""

_HEAD_BYTES = 1024
"""Room that a link's frame has for what stands around an answer."""

_User = Annotated[str, msgspec.Meta(max_length=256)]


class Granted(msgspec.Struct, frozen=True, array_like=True):
    """What somebody on the way grants: a client, or a link that one hub takes the question from, or passes it on to."""

    user: _User
    journal: Paths
    """What may be read."""
    publish: Paths
    """Where dead letters may be published."""


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """One question."""

    hub: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    """The hub of the client."""
    run: int
    """A number of that hub that is another one when it was started anew: clients of before are gone then."""
    client: int
    """A number that the client alone has there."""
    what: str
    """One of `QUESTIONS`, or empty, or `GONE`."""
    value: Any = None
    """As the client has asked."""
    user: _User = ""
    """Who the client is; empty where there are no users."""
    is_admin: bool = True
    """Whether he may administer his hub."""
    frame_bytes: Annotated[int, msgspec.Meta(ge=1)] = 1 << 32
    """The largest frame that he, and each link on the way, takes."""
    granted: Annotated[tuple[Granted, ...], msgspec.Meta(max_length=GRANTED_LIMIT)] = ()
    """Who all must grant what he reads. Without any, everything is."""


encode_question = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Question).decode


def decode_question(value: bytes) -> Question:
    """Read a question.

    Raises:
        RejectedError: It is none.
    """
    try:
        return _decode(value)
    except MALFORMED as error:
        raise RejectedError(CloseCode.BAD_DATA, f"no question: {printable(str(error))}") from error


def granted_by(rights: Rights | None, reads: Action, publishes: Action) -> tuple[Granted, ...]:
    """Return what somebody grants, to be added to a question; nothing where he has no rights, and so all.

    Args:
        rights: Of whom.
        reads: What he must be granted for what is read.
        publishes: What he must be granted for dead letters.

    Raises:
        RejectedError: There is too much to be compared.
    """
    if rights is None:
        return ()
    journal, publish = rights.paths(reads, NARROWED_PATHS), rights.paths(publishes, NARROWED_PATHS)
    if journal is None or publish is None:
        text = f"consumers: more than {NARROWED_PATHS} grants of user {printable(rights.user.name)} to be compared"
        raise RejectedError(CloseCode.NOT_ALLOWED, text)
    return (Granted(rights.user.name, tuple(journal), tuple(publish)),)


def pass_on(asker: Handler, link: Handler, value: bytes) -> bytes:
    """Return the question as it goes on over a link, with what this hub grants to both sides.

    What is read comes over `link` and goes to `asker`; dead letters are published the other way.

    Raises:
        RejectedError: It is none, or cannot go on.
    """
    question = decode_question(value)
    granted = question.granted
    if asker.is_link:
        granted += granted_by(asker.rights, asker.acts.seeing, asker.acts.publishing)
    granted += granted_by(link.rights, link.acts.publishing, link.acts.seeing)
    if len(granted) > GRANTED_LIMIT:
        text = f"consumers: {GRANTED_LIMIT} policies narrow this already, which is the limit"
        raise RejectedError(CloseCode.NOT_ALLOWED, text)
    limits = [question.frame_bytes, link.frame_limit_bytes, *([asker.frame_limit_bytes] if asker.is_link else [])]
    frame_bytes = max(1, min(limits) - _HEAD_BYTES)
    return encode_question(msgspec.structs.replace(question, granted=granted, frame_bytes=frame_bytes))
