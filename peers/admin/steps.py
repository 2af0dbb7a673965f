"""`in_steps`: an answer that is worked out in steps, one a turn of the loop, so that nobody waits for it.

Owner: the loop's next turn. Cost: a callback a step. Not here: how the answer is sent (`hub.requests.hub_services`).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from hub.errors import HubError, InternalError
from hub.requests.later import Later
from peers.node.node import Node

__all__ = ["in_steps"]


def in_steps(node: Node, work: Generator[None, None, Any]) -> Later:
    """Return the answer that `work` will have when its last step is done: what it returns, or the `HubError` it raises.

    Each `yield` ends a step.
    """
    later = Later()

    def step() -> None:
        try:
            next(work)
        except StopIteration as end:
            later.give(end.value)
        except HubError as error:
            later.fail(error)
        except Exception as error:
            later.fail(InternalError("a bug of the hub, please report it; its log has more"))
            node.log.exception("a request to the hub failed by a bug, please report it", error=repr(error))
        else:
            node.after_turn(step)

    node.after_turn(step)
    return later
