"""`in_steps`: an answer that is worked out in steps, one a turn of the loop, so that nobody waits for it.

Work may wait for another answer, as that of other processes of the hub: it yields the `Later`, and gets its value.

Owner: the loop's next turn. Cost: a callback a step. Not here: how the answer is sent (`hub.requests.hub_services`).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from hub.errors import HubError, InternalError
from hub.requests.hub_services import Later
from peers.node.node import Node

T = TypeVar("T")


Work = Generator[Later | None, Any, T]
"""Work in steps, and what it returns."""


def in_steps(node: Node, work: Work[Any]) -> Later:
    """Return the answer that `work` will have when its last step is done: what it returns, or the `HubError` it raises.

    Each `yield` ends a step: the next one is in the next turn, or once the `Later` that was yielded is there. That
    gives its value, or raises its error there.
    """
    later = Later()

    def step(awaited: Later | None = None) -> None:
        try:
            if awaited is not None and awaited.error is not None:
                awaits = work.throw(awaited.error)
            else:
                awaits = work.send(None if awaited is None else awaited.value)
        except StopIteration as end:
            later.give(end.value)
        except HubError as error:
            later.fail(error)
        except Exception as error:
            later.fail(InternalError("a bug of the hub, please report it; its log has more"))
            node.log.exception("a request to the hub failed by a bug, please report it", error=repr(error))
        else:
            if awaits is None:
                node.after_turn(step)
            else:
                awaits.then(lambda: step(awaits))

    node.after_turn(step)
    return later
