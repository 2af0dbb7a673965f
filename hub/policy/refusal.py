"""What is said to whoever may not do something, and the checks that say it: one wording for all doors.

```
publish '/a/b': not granted to user 'x'
subscribe '/a': not granted as a whole to user 'x'; granted beneath: '/a/b/', '/a/c/'
```

Owner: nobody. Cost: that of `Rights`; the text of a refusal a few µs more.

Not here: who may do what (`hub.policy.policy`), to whom it is said.
"""

from __future__ import annotations

from collections.abc import Iterable

from hub.errors import CloseCode, RejectedError
from hub.policy.path import TOPICS
from hub.policy.policy import Action, Rights
from hub.topics import printable

__all__ = ["check_granted", "check_prefix_granted", "check_prefixes_granted", "not_granted", "prefix_not_granted"]


def not_granted(rights: Rights, action: Action, topic: str) -> RejectedError:
    """Return what is said to a user who may not do something to a topic, or to a name."""
    return RejectedError(
        CloseCode.NOT_ALLOWED, f"{action.value} {printable(topic)}: not granted to user {printable(rights.user.name)}"
    )


def prefix_not_granted(rights: Rights, action: Action, prefix: str) -> RejectedError:
    """Return what is said to a user who may not do something to all topics that begin with a prefix.

    Prefixes are plain text, grants are for whole components: `/a` would cover `/ab`, too. So what is granted beneath is
    said as the prefix that it covers, with a slash behind it.
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
    """See to it that somebody may do something to a topic, or to a name.

    Raises:
        RejectedError: He may not.
    """
    if rights is not None and not rights.may(action, topic):
        raise not_granted(rights, action, topic)


def check_prefix_granted(rights: Rights | None, action: Action, prefix: str) -> None:
    """See to it that somebody may do something to every topic that begins with a prefix.

    Raises:
        RejectedError: He may not; the text says what is granted beneath.
    """
    if rights is not None and not rights.may_all(action, prefix):
        raise prefix_not_granted(rights, action, prefix)


def check_prefixes_granted(rights: Rights | None, action: Action, prefixes: Iterable[str]) -> None:
    """See to it that somebody may do something to every topic that begins with one of these prefixes.

    Raises:
        RejectedError: He may not; the text says it of the first.
    """
    if rights is not None:
        for prefix in prefixes:
            check_prefix_granted(rights, action, prefix)
