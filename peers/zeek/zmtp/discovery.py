"""`Discovery`: which nodes of a Zeek cluster are up, as one of them finds it out, and what it says to them for that.

```
subscription zeek.cluster.nodeid.<B>.   ─▶ B is there     ─▶ Cluster::Backend::ZeroMQ::hello(name, id) to B
the same from B, and its subscription   ─▶ both are there ─▶ Cluster::hello(name, id) to B, once
Cluster::hello(name, id) from B         ─▶ B is up
the end of B's subscription             ─▶ B is down: there is no other goodbye
```

Nothing is said before this node's own subscription has come back: then the broker has told it to all. While the
connection to the broker is gone, nodes keep what they know, as libzmq does; a node that is not there again in time when
it is back is down (`look`, called every `LOOK_S`). Owner: one cluster. `changes` are to be taken after every call.
Source: section 4 of the notes on Zeek's backend, and recordings.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from peers.values.event import Event, NoEventError
from peers.values.layout import InvalidDataError

NODE_ID: Final = b"zeek.cluster.nodeid."
"""What the topics begin with by which nodes find each other: the id follows, and a dot."""

NODES_LIMIT: Final = 10_000
"""Most nodes that are kept; Zeek's largest clusters have some hundreds."""

GREETING: Final = "Cluster::Backend::ZeroMQ::hello"
"""What a node says first to another one: its name and its id."""

LOOK_S: Final = 10.0
"""How long it is waited for the other half of a greeting, and for nodes to be there again, seconds, and up to twice as
long: Zeek's `hello_expiration`."""

_ANSWER: Final = "Cluster::hello"
_SHOWN_LIMIT: Final = 256
"""Longest name, and longest id, characters."""
_NEVER: Final = -1
_LOOKS: Final = 2


class Say(NamedTuple):
    """An event is to be published."""

    topic: bytes
    payload: bytes


class Up(NamedTuple):
    """A node is up."""

    id: str
    name: str


class Down(NamedTuple):
    """A node that was up is down."""

    id: str
    name: str
    reason: str


class Odd(NamedTuple):
    """Something that whoever has set up the cluster wants to know, in one line."""

    reason: str


Change = Say | Up | Down | Odd


class _Node:
    """Another one."""

    __slots__ = ("greeted_in", "has_greeted", "is_answered", "is_there", "is_up", "looks", "name", "was_up")

    def __init__(self) -> None:
        self.name = ""
        # Whether it has subscribed to its own topic, as far as that was told since the connection is there.
        self.is_there = False
        # Whether it has said its greeting.
        self.has_greeted = False
        # In which time of this node's own subscription it was greeted.
        self.greeted_in = _NEVER
        # Whether it was told that it is up.
        self.is_answered = False
        # Whether it has said so itself; and whether it had, and was not there again in time.
        self.is_up = self.was_up = False
        # How often it was looked at while something was missing.
        self.looks = 0

    @property
    def is_waited_for(self) -> bool:
        """Whether something is missing that should come soon."""
        return not self.is_there or not (self.is_up or self.was_up)


class Discovery:
    """The nodes of a cluster, without this one.

    Args:
        name: Of this node, as it stands in the cluster's layout.
        own: Its id.
    """

    __slots__ = ("_changes", "_is_heard", "_name", "_nodes", "_own", "_period")

    def __init__(self, name: str, own: str) -> None:
        self._name = name
        self._own = own
        self._nodes: dict[str, _Node] = {}
        self._changes: list[Change] = []
        # Whether this node's subscription has come back, so that others know it; and how often it was made.
        self._is_heard = False
        self._period = 0

    @property
    def mailbox(self) -> bytes:
        """The topic to which others say it."""
        return _topic(self._own)

    @property
    def nodes(self) -> dict[str, str]:
        """The names of those that are up, by their ids."""
        return {node_id: node.name for node_id, node in self._nodes.items() if node.is_up}

    def changes(self) -> list[Change]:
        """Return and forget what is to be done."""
        changes, self._changes = self._changes, []
        return changes

    # What the broker tells.

    def subscribing(self) -> None:
        """This node subscribes to its topic, which it did not: others may greet it again."""
        self._is_heard = False
        self._period += 1

    def subscribed(self, topic: bytes) -> None:
        """Somebody has asked for a topic that begins with `NODE_ID`; once more, perhaps."""
        node_id = _id_of(topic)
        if node_id == self._own:
            if not self._is_heard:
                self._is_heard = True
                for other in self._nodes:
                    self._greet(other)
        elif node_id and (node := self._node(node_id)) is not None and not node.is_there:
            node.is_there, node.looks = True, 0
            if node.was_up:
                node.was_up = False
                self._raise(node_id, node)
            self._greet(node_id)

    def unsubscribed(self, topic: bytes) -> None:
        """Nobody asks for it any more."""
        node_id = _id_of(topic)
        if node_id == self._own:
            self._is_heard = False
        elif (node := self._nodes.pop(node_id, None)) is not None and node.is_up:
            self._changes.append(Down(node_id, node.name, "it has gone"))

    def interrupted(self) -> None:
        """The connection is gone by which that is told: all of it will be told again."""
        self._is_heard = False
        for node in self._nodes.values():
            node.is_there, node.looks = False, 0

    # What nodes say.

    def hear(self, payload: bytes) -> None:
        """Take an event that came to `mailbox`; others than greetings are for the hub's clients."""
        try:
            event = Event.decode(payload)
        except (NoEventError, InvalidDataError):
            return
        if event.name not in {GREETING, _ANSWER}:
            return
        match event.args:
            case (str() as name, str() as node_id) if max(len(name), len(node_id)) <= _SHOWN_LIMIT:
                self._hear(event.name, name, node_id)
            case _:
                self._changes.append(
                    Odd(f"{event.name} with other arguments than a name and an id: {str(event)[:_SHOWN_LIMIT]}")
                )

    def _hear(self, word: str, name: str, node_id: str) -> None:
        if node_id == self._own or (node := self._node(node_id)) is None:
            return
        node.name = name
        if word == _ANSWER:
            if not node.is_up:
                self._raise(node_id, node)
            return
        if node.greeted_in != self._period:
            node.greeted_in = _NEVER  # it has seen this node come, perhaps once more
        node.has_greeted = True
        self._greet(node_id)

    # What is done about it.

    def greet_again(self) -> None:
        """What was said so far has been understood by nobody: say it once more."""
        for node_id, node in self._nodes.items():
            node.greeted_in = _NEVER
            self._greet(node_id)

    def _greet(self, node_id: str) -> None:
        """Say to a node what it can be told now."""
        node = self._nodes[node_id]
        if not (self._is_heard and node.is_there):
            return
        is_done = node.is_up or node.was_up  # else what was said before may be lost
        if node.greeted_in == _NEVER or (node.greeted_in != self._period and not is_done):
            node.greeted_in = self._period
            node.is_answered = False
            self._say(GREETING, node_id)
        if node.has_greeted and not node.is_answered:
            node.is_answered = True
            self._say(_ANSWER, node_id)

    def _say(self, word: str, node_id: str) -> None:
        self._changes.append(Say(_topic(node_id), Event(word, self._name, self._own).encode()))

    def _raise(self, node_id: str, node: _Node) -> None:
        if node.name == self._name:
            self._changes.append(
                Odd(f"{node_id} has the name of this node, {node.name!r}: names are unique in a cluster")
            )
        for other_id, other in self._nodes.items():
            if other.is_up and other.name == node.name:
                other.is_up = False
                self._changes.append(Down(other_id, other.name, f"{node_id} has its name now"))
        node.is_up = True
        self._changes.append(Up(node_id, node.name))

    def look(self) -> None:
        """Look who is missing: call it every `LOOK_S`."""
        for node_id, node in list(self._nodes.items()):
            if not node.is_waited_for or (node.is_there and not self._is_heard):
                continue
            node.looks += 1
            if node.looks == _LOOKS:
                self._give_up(node_id, node)

    def _give_up(self, node_id: str, node: _Node) -> None:
        if node.is_up:
            node.is_up, node.was_up = False, True
            self._changes.append(Down(node_id, node.name, "it is not there again since the connection was lost"))
        elif node.is_there:
            text = f"{node_id} has not said {_ANSWER}: it is no node, or uses another serializer (?serializer=...)"
            self._changes.append(Odd(text))
        elif not node.was_up:
            del self._nodes[node_id]
            self._changes.append(Odd(f"{node_id} says that it is a node, and has not subscribed to its topic"))

    def _node(self, node_id: str) -> _Node | None:
        """Return what is known of a node, from now on; None where it is one too many."""
        node = self._nodes.get(node_id)
        if node is None and len(self._nodes) >= NODES_LIMIT:
            self._forget_absent()
        if node is None and len(self._nodes) < NODES_LIMIT:
            node = self._nodes[node_id] = _Node()
            if len(self._nodes) == NODES_LIMIT:
                self._changes.append(Odd(f"{NODES_LIMIT} nodes are known: no further ones are greeted"))
        return node

    def _forget_absent(self) -> None:
        """Forget those that are down, and might come again."""
        for node_id in [node_id for node_id, node in self._nodes.items() if node.was_up]:
            del self._nodes[node_id]


def _topic(node_id: str) -> bytes:
    return NODE_ID + node_id.encode() + b"."


def _id_of(topic: bytes) -> str:
    """Return the id in a topic: what stands before its last byte. Empty where nobody is meant."""
    try:
        return topic[len(NODE_ID) : -1].decode()
    except UnicodeDecodeError:
        return ""
