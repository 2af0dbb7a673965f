"""`Discovery`: which nodes of a Zeek cluster are up, as one of them finds it out, and the greetings that it sends.

```
subscription zeek.cluster.nodeid.<B>.   ─▶ B is there     ─▶ Cluster::Backend::ZeroMQ::hello(name, id) to B
the same from B, and its subscription   ─▶ both are there ─▶ Cluster::hello(name, id) to B, once
Cluster::hello(name, id) from B         ─▶ B is up
the end of B's subscription             ─▶ B is down: there is no other goodbye
```

Nothing is sent before this node's own subscription has come back: then the broker has sent it to all. While the
connection to the broker is gone, nodes are kept, as by libzmq; a node that is not there again in time afterwards is
down (`look`). The owner takes `changes` after every call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from peers.values.binary import InvalidDataError
from peers.values.event import Event, NoEventError

NODE_ID: Final = b"zeek.cluster.nodeid."
"""Beginning of the topics by which nodes find each other: the id follows, and a dot."""

NODES_LIMIT: Final = 10_000  # Zeek's largest clusters have some hundreds
GREETING: Final = "Cluster::Backend::ZeroMQ::hello"
LOOK_S: Final = 10.0
"""Timeout for the other half of a greeting, and for nodes to be there again; up to twice as long: Zeek's
`hello_expiration`."""

_ANSWER: Final = "Cluster::hello"
_SHOWN_LIMIT: Final = 256  # characters of a name, and of an id
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
    """A line for the operator of the cluster."""

    reason: str


Change = Say | Up | Down | Odd


@dataclass(slots=True, eq=False)
class _Node:
    name: str = ""
    is_there: bool = False  # it has subscribed to its own topic since the connection is there
    has_greeted: bool = False
    greeted_in: int = _NEVER  # the period of this node's own subscription in which it was greeted
    is_answered: bool = False
    is_up: bool = False  # it has answered
    was_up: bool = False  # it had answered, and was not there again in time
    looks: int = 0  # while its subscription or its answer was missing

    @property
    def is_waited_for(self) -> bool:
        return not self.is_there or not (self.is_up or self.was_up)


class Discovery:
    """The other nodes of a cluster; `name` and `own` are this node's name and id."""

    def __init__(self, name: str, own: str) -> None:
        self._name = name
        self._own = own
        self._nodes: dict[str, _Node] = {}
        self._changes: list[Change] = []
        self._is_heard = False  # this node's subscription has come back, so others know it
        self._period = 0  # how often it was made

    @property
    def mailbox(self) -> bytes:
        return _topic(self._own)

    @property
    def nodes(self) -> dict[str, str]:
        """Names of the nodes that are up, by their ids."""
        return {node_id: node.name for node_id, node in self._nodes.items() if node.is_up}

    def changes(self) -> list[Change]:
        changes, self._changes = self._changes, []
        return changes

    # Subscriptions, as the broker sends them.

    def subscribing(self) -> None:
        """This node subscribes to its topic again: others may greet it again."""
        self._is_heard = False
        self._period += 1

    def subscribed(self, topic: bytes) -> None:
        """A topic that begins with `NODE_ID` was subscribed to, perhaps once more."""
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
        """The last subscription to it has ended."""
        node_id = _id_of(topic)
        if node_id == self._own:
            self._is_heard = False
        elif (node := self._nodes.pop(node_id, None)) is not None and node.is_up:
            self._changes.append(Down(node_id, node.name, "it has gone"))

    def interrupted(self) -> None:
        """The connection to the broker is gone; it will send all subscriptions again."""
        self._is_heard = False
        for node in self._nodes.values():
            node.is_there, node.looks = False, 0

    # Events of nodes.

    def hear(self, payload: bytes) -> None:
        """Take an event that came to `mailbox`; only greetings count."""
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
                text = f"{event.name} with other arguments than a name and an id: {str(event)[:_SHOWN_LIMIT]}"
                self._changes.append(Odd(text))

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
        elif node.has_greeted:
            node.is_answered = False  # it has seen this node go behind the answer, which it has forgotten then
        node.has_greeted = True
        self._greet(node_id)

    # Greetings.

    def greet_again(self) -> None:
        """Greet all nodes once more, as they could not read the greetings so far."""
        for node_id, node in self._nodes.items():
            node.greeted_in = _NEVER
            self._greet(node_id)

    def _greet(self, node_id: str) -> None:
        node = self._nodes[node_id]
        if not (self._is_heard and node.is_there):
            return
        is_done = node.is_up or node.was_up  # else earlier greetings may be lost
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
            text = f"{node_id} has the name of this node, {node.name!r}: names are unique in a cluster"
            self._changes.append(Odd(text))
        for other_id, other in self._nodes.items():
            if other.is_up and other.name == node.name:
                other.is_up = False
                self._changes.append(Down(other_id, other.name, f"{node_id} has its name now"))
        node.is_up = True
        self._changes.append(Up(node_id, node.name))

    def look(self) -> None:
        """Report missing nodes; call it every `LOOK_S`."""
        for node_id, node in list(self._nodes.items()):
            if not node.is_waited_for or (node.is_there and not self._is_heard):
                continue
            node.looks += 1
            if node.looks != _LOOKS:
                continue
            if node.is_up:
                node.is_up, node.was_up = False, True
                self._changes.append(Down(node_id, node.name, "it is not there again since the connection was lost"))
            elif node.is_there:
                text = (
                    f"{node_id} has not said {_ANSWER}: it is not a node, or uses another serializer (?serializer=...)"
                )
                self._changes.append(Odd(text))
            elif not node.was_up:
                del self._nodes[node_id]
                self._changes.append(Odd(f"{node_id} says that it is a node, and has not subscribed to its topic"))

    def _node(self, node_id: str) -> _Node | None:
        """Return a node, which is known from now on; None where it is one too many."""
        node = self._nodes.get(node_id)
        if node is None and len(self._nodes) >= NODES_LIMIT:
            for absent in [each for each, one in self._nodes.items() if one.was_up]:
                del self._nodes[absent]
        if node is None and len(self._nodes) < NODES_LIMIT:
            node = self._nodes[node_id] = _Node()
            if len(self._nodes) == NODES_LIMIT:
                self._changes.append(Odd(f"{NODES_LIMIT} nodes are known: no further ones are greeted"))
        return node


def _topic(node_id: str) -> bytes:
    return NODE_ID + node_id.encode() + b"."


def _id_of(topic: bytes) -> str:
    try:
        return topic[len(NODE_ID) : -1].decode()
    except UnicodeDecodeError:
        return ""
