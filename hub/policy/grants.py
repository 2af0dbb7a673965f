"""`Grants`: all grants of one action, compiled: may a user with these roles do it to this topic?

```
analyst: allow /zeek, deny /zeek/secret         ""
all:     allow /status/{user}                    ├─ "zeek"    allow {analyst}
                                                 │    └─ "secret"   deny {analyst}
                                                 └─ "status"
                                                      └─ {user}     allow {all}
```

The most specific grant decides, of whichever role; of two for the same path, the one that denies; without any, nothing
is allowed. `add` takes 4 µs, `allows` a set operation for each grant met, however many grants there are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, NamedTuple

from hub.errors import InvalidTopicError
from hub.topics import RESERVED, check_prefix, printable

TOPICS = "/"  # Separator of the components of a topic
NAMES = "."  # Separator of the elements of a service name
EVERYTHING = "*"  # The path without components. It does not cover the hub's own topics under `$hub/`
OWN = RESERVED.rstrip(TOPICS)  # First component of the hub's own topics: `EVERYTHING` is not for these
USER = "{user}"  # Stands for a component that is the user's name
_ODD = frozenset({"", ".", ".."})
_MARKS = re.compile("[*{}]")


class Path(NamedTuple):
    """The components of a grant, and its text."""

    components: tuple[str, ...]  # `USER` among them stands for the user's name. Empty for `EVERYTHING`
    text: str


def parse_path(text: str, separator: str = TOPICS) -> Path:
    """Read a path of topics or names, by the separator.

    Raises:
        InvalidTopicError: The path is invalid, or would not mean what it seems to; the text says how to write it.
    """
    if text == EVERYTHING:
        return Path((), text)
    check_prefix(text)
    if not text:
        raise InvalidTopicError(f"the path is empty; write {EVERYTHING!r} for everything")
    if text.endswith(separator):
        bare, shown = printable(text.rstrip(separator) or EVERYTHING), printable(text)
        raise InvalidTopicError(f"path {shown} ends with {separator!r}; write {bare}, which covers everything below it")
    components = tuple(text.split(separator))
    checked = components[1:] if text.startswith(TOPICS) else components
    if not _ODD.isdisjoint(checked) or _MARKS.search(text):
        for component in checked:
            _check(component, printable(text), separator)
    return Path(components, text)


def _check(component: str, shown: str, separator: str) -> None:
    if not component:
        raise InvalidTopicError(f"path {shown} has an empty component: two {separator!r} without anything between them")
    if component in _ODD:
        raise InvalidTopicError(f"path {shown} has the component {component!r}, which is nothing special in a topic")
    if "*" in component:
        raise InvalidTopicError(
            f"path {shown}: {EVERYTHING!r} must be the whole path; a path covers everything below it without it"
        )
    if component != USER and ("{" in component or "}" in component):
        raise InvalidTopicError(
            f"path {shown}: {printable(component)} is not a valid component; only {USER!r}, as a whole one"
        )


_SEARCHED_NODES = 200  # Nodes looked at for the text of a refusal, 0.4 µs each: examples are enough there


class User(NamedTuple):
    """A user, as the grants see it."""

    name: str
    roles: frozenset[str]


class Grant(NamedTuple):
    """A grant, for people."""

    role: str
    path: str
    allowed: bool


_NO_ROLES: frozenset[str] = frozenset()
_NO_NODES: Mapping[str, Any] = MappingProxyType({})


class _Node:
    """A component of paths of grants."""

    __slots__ = ("allow", "allow_beneath", "children", "component", "denied_beneath", "deny", "named", "path")

    def __init__(self, component: str) -> None:
        self.component = component
        self.path = ""  # As a grant has it; empty where no grant ends
        # Most nodes are the end of one grant: sets that are empty, or have one role, are shared until they grow.
        self.allow: AbstractSet[str] = _NO_ROLES  # Roles of grants for exactly this path
        self.deny: AbstractSet[str] = _NO_ROLES
        self.allow_beneath: AbstractSet[str] = _NO_ROLES  # All roles in `allow` of a node beneath
        # Role in `deny` of a node beneath → the next nodes on the ways there
        self.denied_beneath: Mapping[str, set[_Node]] = _NO_NODES
        self.children: Mapping[str, _Node] = _NO_NODES
        self.named: _Node | None = None  # The child for the user's name

    @property
    def decides(self) -> bool:
        return bool(self.allow or self.deny)


_Met = tuple[_Node, str | None]  # A node on the way of a topic, and the topic's component where the path has `USER`
Level = tuple[_Met, ...]  # The nodes met with one component: several where paths have the user's name

# The nodes with grants on the way of a topic, the most specific level first. Topics of one domain are allowed to the
# same users, so a route remembers the domain, and a publisher the decision for it.
Domain = tuple[Level, ...]


class Grants:
    """The grants of one action."""

    __slots__ = ("_alone", "_depth", "_own", "_root", "_separator")

    def __init__(self, separator: str = TOPICS) -> None:
        self._separator = separator
        self._root = _Node("")  # The node of the path without components: it holds for all but the hub's own topics
        # The tree of paths under `$hub`, apart, so that nothing granted for everything reaches into it
        self._own = _Node("")
        self._depth = 0  # How many components the longest path has; nothing beneath it is looked at
        self._alone: dict[str, frozenset[str]] = {}  # Role → the set of it alone, one for all nodes that have no other

    def add(self, role: str, path: Path, *, allowed: bool) -> None:
        components = path.components
        self._depth = max(self._depth, len(components))
        alone = self._alone.get(role)
        if alone is None:
            alone = self._alone[role] = frozenset((role,))
        node = self._root_of(components[0] if components else "")
        for component in components:
            above = node
            node = above.children.get(component) or self._beneath(above, component)
            if not allowed:
                if not isinstance(above.denied_beneath, dict):
                    above.denied_beneath = {}
                above.denied_beneath.setdefault(role, set()).add(node)
            elif role not in above.allow_beneath:
                above.allow_beneath = _with(above.allow_beneath, alone)
        node.path = path.text
        if allowed:
            node.allow = _with(node.allow, alone)
        else:
            node.deny = _with(node.deny, alone)

    def _beneath(self, node: _Node, component: str) -> _Node:
        if component == USER and node.named is not None:
            return node.named
        child = _Node(component)
        if component == USER:
            node.named = child
        elif isinstance(node.children, dict):
            node.children[component] = child
        else:
            node.children = {component: child}
        return child

    def _root_of(self, component: str) -> _Node:
        return self._own if component == OWN else self._root

    def _descend(self, components: Sequence[str], root: _Node) -> tuple[list[Level], list[_Met]]:
        """Return the nodes with grants that a topic meets, by level; and those of its last component."""
        met: list[_Met] = [(root, None)]
        levels: list[Level] = [tuple(met)] if root.decides else []
        for component in components:
            met = _step(met, component)
            if not met:
                break
            level = tuple([one for one in met if one[0].decides])
            if level:
                levels.append(level)
        return levels, met

    # One topic.

    def domain(self, topic: str) -> Domain:
        """Return the nodes that decide about a topic: the same for all users."""
        components = topic.split(self._separator, self._depth)[: self._depth]
        levels, _ = self._descend(components, self._root_of(topic.partition(self._separator)[0]))
        return tuple(reversed(levels))

    def allows(self, domain: Domain, user: User) -> bool:
        return _is_allowed(domain, user)

    def concerns(self, user: User) -> bool:
        return any(
            not user.roles.isdisjoint(allowed)
            for root in (self._root, self._own)
            for allowed in (root.allow, root.allow_beneath)
        )

    def paths(self, user: User, limit: int) -> list[tuple[str, bool]] | None:
        """Return every path that decides for a user, with the name in it, and whether it allows: as grants of one role.

        None if more than `limit` nodes would have to be looked at for them.
        """
        found: list[tuple[str, bool]] = []
        for looked_at, node in enumerate(_walk((self._root, self._own), user.roles)):
            if looked_at >= limit:
                return None
            path = node.path.replace(USER, user.name)
            found += [
                (path, allowed)
                for allowed, roles in ((True, node.allow), (False, node.deny))
                if not user.roles.isdisjoint(roles)
            ]
        return found

    def decisive(self, domain: Domain, user: User) -> Grant | None:
        """Return the grant that decides for a user; None where none is met, so that nothing is allowed."""
        for level in domain:
            concerned = [node for node, name in level if name in (None, user.name)]
            for allowed in (False, True):
                for node in concerned:
                    for role in sorted(user.roles & (node.allow if allowed else node.deny)):
                        return Grant(role, node.path, allowed)
        return None

    # All topics under a prefix.

    def covers(self, prefix: str, user: User) -> bool:
        """Return whether a user may do it to every topic that begins with a prefix.

        For a prefix that is wider than `$hub/`, topics of the hub itself do not count: a subscriber to everything does
        not see them unless that is granted.
        """
        levels, met, part = self._descend_prefix(prefix)
        return _is_allowed(reversed(levels), user) and _denial(met, part, user) is None

    def denial_beneath(self, prefix: str, user: User) -> Grant | None:
        _, met, part = self._descend_prefix(prefix)
        return _denial(met, part, user)

    def _descend_prefix(self, prefix: str) -> tuple[list[Level], list[_Met], str]:
        *whole, part = prefix.split(self._separator)
        return *self._descend(whole, self._root_of(whole[0] if whole else "")), part

    def granted_beneath(self, prefix: str, user: User, limit: int) -> list[str]:
        """Return at most `limit` allowed paths that begin with a prefix, ascending, for the text of a refusal.

        Paths beneath one of them are left out; denials beneath are not looked at.
        """
        _, met, part = self._descend_prefix(prefix)
        searched = iter(range(_SEARCHED_NODES))
        paths = (
            path
            for node, name in met
            if name in (None, user.name)
            for path in _allowed_beneath(node, name, part, user, searched)
        )
        return sorted(islice(paths, limit))


def _with(roles: AbstractSet[str], alone: frozenset[str]) -> AbstractSet[str]:
    """Return roles and one more, as a set that grows in place once there are two."""
    if not roles:
        return alone
    if isinstance(roles, set):
        roles |= alone
        return roles
    return roles if roles >= alone else {*roles, *alone}


def _step(met: list[_Met], component: str) -> list[_Met]:
    reached: list[_Met] = []
    for node, name in met:
        child = node.children.get(component)
        if child is not None:
            reached.append((child, name))
        named = node.named
        if named is not None and name in (None, component):
            reached.append((named, component))
    return reached


def allows_by(paths: Iterable[tuple[str, bool]]) -> Callable[[str], bool]:
    """Return a function that decides about topics as `Grants.paths` says, for another process."""
    grants, user = _of_one(paths)
    return lambda topic: grants.allows(grants.domain(topic), user)


def covers_by(paths: Iterable[tuple[str, bool]]) -> Callable[[str], bool]:
    """Return a function that decides about prefixes as `Grants.paths` says (`Grants.covers`), for another process."""
    grants, user = _of_one(paths)
    return lambda prefix: grants.covers(prefix, user)


def _of_one(paths: Iterable[tuple[str, bool]]) -> tuple[Grants, User]:
    grants, role = Grants(), "reader"
    for path, allowed in paths:
        grants.add(role, Path(() if path == EVERYTHING else tuple(path.split(TOPICS)), path), allowed=allowed)
    return grants, User("", frozenset({role}))


def _walk(nodes: Iterable[_Node], roles: frozenset[str]) -> Iterator[_Node]:
    """Yield nodes and all beneath them, but for the branches in which none of these roles stands."""
    for node in nodes:
        yield node
        if roles.isdisjoint(node.allow_beneath) and roles.isdisjoint(node.denied_beneath):
            continue
        yield from _walk(chain(node.children.values(), () if node.named is None else (node.named,)), roles)


def _is_allowed(levels: Iterable[Level], user: User) -> bool:
    name, roles = user
    for level in levels:
        is_allowed = False
        for node, met_name in level:
            if met_name is not None and met_name != name:
                continue
            if not roles.isdisjoint(node.deny):
                return False
            if not roles.isdisjoint(node.allow):
                is_allowed = True
        if is_allowed:
            return True
    return False


def _denial(met: list[_Met], part: str, user: User) -> Grant | None:
    denials = (
        denial for node, name in met if name in (None, user.name) for denial in _denials_beneath(node, name, part, user)
    )
    return next(denials, None)


def _denials_beneath(node: _Node, name: str | None, part: str, user: User) -> Iterator[Grant]:
    denied = node.denied_beneath
    for role in user.roles if len(denied) > len(user.roles) else user.roles.intersection(denied):
        for one in denied.get(role, ()):
            yield from _denials_at(one, name, part, role, user)


def _denials_at(node: _Node, name: str | None, part: str, role: str, user: User) -> Iterator[Grant]:
    """Yield denials of a node, or of anything beneath it, to one role of a user, if a component begins with `part`."""
    component = node.component
    if component == USER:
        if name not in (None, user.name):
            return
        component = name = user.name
    if not component.startswith(part):
        return
    if role in node.deny:
        yield Grant(role, node.path, allowed=False)
    for one in node.denied_beneath.get(role, ()):
        yield from _denials_at(one, name, "", role, user)


def _allowed_beneath(node: _Node, name: str | None, part: str, user: User, searched: Iterator[int]) -> Iterator[str]:
    if user.roles.isdisjoint(node.allow_beneath):
        return
    beneath = ((child, name) for component, child in node.children.items() if component.startswith(part))
    is_own = user.name.startswith(part) and name in (None, user.name)
    named = [(node.named, user.name)] if node.named is not None and is_own else []
    for one, its_name in chain(beneath, named):
        if next(searched, None) is None:
            return
        if user.roles.isdisjoint(one.allow):
            yield from _allowed_beneath(one, its_name, "", user, searched)
        else:
            yield one.path.replace(USER, user.name)
