"""Errors for what a user may not do, and the checks that raise them: one wording for all protocols.

```
publish '/a/b': not granted to user 'x'
subscribe '/a': not granted as a whole to user 'x'; granted beneath: '/a/b/', '/a/c/'
```
"""

from __future__ import annotations

from collections.abc import Iterable

from hub.errors import CloseCode, RejectedError
from hub.policy.grants import TOPICS
from hub.policy.policy import Action, Rights
from hub.topics import printable


def not_granted(rights: Rights, action: Action, topic: str) -> RejectedError:
    return RejectedError(
        CloseCode.NOT_ALLOWED, f"{action.value} {printable(topic)}: not granted to user {printable(rights.user.name)}"
    )


def prefix_not_granted(rights: Rights, action: Action, prefix: str) -> RejectedError:
    """Return the error for all topics that begin with a prefix.

    Prefixes are plain text, grants are for whole components: `/a` would cover `/ab`, too. So what is granted beneath is
    shown as the prefix that it covers, with a slash behind it.
    """
    user = printable(rights.user.name)
    what = f"{action.value} {printable(prefix)}"
    beneath = rights.granted(action, prefix)
    if beneath:
        shown = ", ".join(printable(path + TOPICS) for path in beneath)
        text = f"{what}: not granted as a whole to user {user}; granted beneath: {shown}"
    elif rights.may(action, prefix):
        text = f"{what}: not granted as a whole to user {user}: something beneath it is denied"
    else:
        text = f"{what}: not granted to user {user}"
    return RejectedError(CloseCode.NOT_ALLOWED, text)


def check_granted(rights: Rights | None, action: Action, topic: str) -> None:
    """Raise a `RejectedError` unless an action is granted for a topic, or for a name."""
    if rights is not None and not rights.may(action, topic):
        raise not_granted(rights, action, topic)


def check_prefix_granted(rights: Rights | None, action: Action, prefix: str) -> None:
    """Raise a `RejectedError`, with what is granted beneath, unless an action is granted for a whole prefix."""
    if rights is not None and not rights.may_all(action, prefix):
        raise prefix_not_granted(rights, action, prefix)


def check_prefixes_granted(rights: Rights | None, action: Action, prefixes: Iterable[str]) -> None:
    """Raise a `RejectedError` of the first prefix for which an action is not granted."""
    if rights is not None:
        for prefix in prefixes:
            check_prefix_granted(rights, action, prefix)
