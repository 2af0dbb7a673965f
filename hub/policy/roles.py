"""`BUILT_IN`: the roles that every policy has, unless it has its own of the same name.

| role | |
|---|---|
| `admin` | everything, also what stands under `$hub/`, and administers the hub |
| `member` | publishes, subscribes, requests, serves, claims names and reads the journal, but not under `$hub/` |
| `reader` | subscribes and reads the journal, but not under `$hub/` |
| `peer` | is a peer hub, or a Zeek, that brings and takes everything but what stands under `$hub/` |

Owner: nobody, these are values.
"""

from __future__ import annotations

from collections.abc import Mapping

from hub.policy.path import EVERYTHING, OWN, Path
from hub.policy.policy import Action, RolePermissions

__all__ = ["ADMIN", "BUILT_IN"]

ADMIN = "admin"
"""The role of the hub's own account on this machine."""

_READS = (Action.SUBSCRIBE, Action.JOURNAL)
_WRITES = (Action.PUBLISH, Action.REQUEST, Action.SERVE, Action.CLAIM)
_ALL_TOPICS = (Path((), EVERYTHING), True)
_OWN_TOPICS = (Path((OWN,), OWN), True)

BUILT_IN: Mapping[str, RolePermissions] = {
    ADMIN: RolePermissions({action: [_ALL_TOPICS, _OWN_TOPICS] for action in Action}, is_admin=True),
    "member": RolePermissions({action: [_ALL_TOPICS] for action in (*_READS, *_WRITES)}),
    "reader": RolePermissions({action: [_ALL_TOPICS] for action in _READS}),
    "peer": RolePermissions({action: [_ALL_TOPICS] for action in (Action.BRING, Action.TAKE)}),
}
"""Name → what the role may do."""
