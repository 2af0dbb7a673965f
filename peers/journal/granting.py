"""`granted`: what is read for a FETCH of somebody who may not read everything.

Purpose: the same answer at every door, and at every link that a FETCH for another hub's journal crosses: refused, or
narrowed, which is to leave out the records that are not granted. Those who judge are added up in the order, and the
process that reads asks all of them.

Owner: nobody. Cost: what `Rights` cost; narrowing 0.5 ms at most. Not here: who is asked (`peers.verbs.journal`,
`peers.journal.far_journals`), leaving records out (`peers.journal.view`).
"""

from __future__ import annotations

import msgspec

from hub.errors import CloseCode, RejectedError
from hub.policy.policy import Action, Rights
from hub.policy.refusal import prefix_not_granted
from peers.journal.forms import GRANTED_LIMIT, NARROWED_PATHS, as_order
from peers.wire.records import Fetch

__all__ = ["granted"]


def granted(fetch: Fetch, rights: Rights | None, action: Action, *, narrows: bool) -> Fetch:
    """Return what is read for a FETCH.

    Args:
        fetch: What is asked for, perhaps narrowed by others already.
        rights: Of whom it is asked whether he may have it; None: everything.
        action: What he must be granted.
        narrows: Whether he takes the part of it that is granted to him.

    Raises:
        RejectedError: He may not have all of it, and has not asked for less.
    """
    if rights is None:
        return fetch
    if not fetch.bytes and rights.may_any(action):
        return fetch  # it reads nothing, and asks how far the journal reaches
    refused = next((prefix for prefix in fetch.prefixes if not rights.may_all(action, prefix)), None)
    if refused is None:
        return fetch
    if not narrows or not rights.may_any(action):
        raise prefix_not_granted(rights, action, refused)
    paths = rights.paths(action, NARROWED_PATHS)
    if paths is None:
        text = f"{action.value}: more than {NARROWED_PATHS} grants would have to be compared; ask for what is granted"
        raise RejectedError(CloseCode.NOT_ALLOWED, text)
    order = as_order(fetch)
    if len(order.granted) >= GRANTED_LIMIT:
        text = f"{action.value}: {GRANTED_LIMIT} policies narrow this already, which is the limit"
        raise RejectedError(CloseCode.NOT_ALLOWED, text)
    return msgspec.structs.replace(order, granted=(*order.granted, tuple(paths)))
