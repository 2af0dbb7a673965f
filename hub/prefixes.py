"""`PrefixMultimap`: the values of all prefixes of a topic.

```
subscribe "/zeek/d", "/zeek/dns/", "/"            trie of whole components        tails kept beside each node
                                                  (root)                          {"/": v}
"/zeek/d"    = node "/zeek"  + tail "d"           "" ── "zeek"                  {"d": v, "dns/": v}
"/zeek/dns/" = node "/zeek"  + tail "dns/"
"/"          = root          + tail "/"
```

A prefix is cut at the slash before its last component. The part before is a key of a pygtrie `StringTrie`; the tail
behind it is kept in a dictionary beside that node. A topic meets at most one node per component, and at each of them
one dictionary lookup per *distinct length* of the tails: O(components x distinct tail lengths), flat in the number of
prefixes. A node per character would cost three times the memory. Values of one prefix keep their order.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

import pygtrie

V = TypeVar("V", bound=Hashable)


class _Tail(NamedTuple, Generic[V]):
    """A node's only tail, with its only value: the case of most nodes, in a fifth of the memory of `_Tails`."""

    tail: str
    value: V

    def find(self, rest: str, found: dict[V, None]) -> None:
        if rest.startswith(self.tail):
            found[self.value] = None


class _Tails(Generic[V]):
    """The tails beside one node: tail → its value, or a dict of values where there are several."""

    __slots__ = ("lengths", "values")

    def __init__(self) -> None:
        # Tail → its only value, or a dict of values while there are several.
        self.values: dict[str, V | dict[V, None]] = {}
        # Length → how many tails have it. A length is there as long as one tail has it: `find` tries no other one.
        self.lengths: dict[int, int] = {}

    def add(self, tail: str, value: V) -> bool:
        held = self.values.get(tail)
        if held is None:
            self.values[tail] = value
            self.lengths[len(tail)] = self.lengths.get(len(tail), 0) + 1
            return True
        if isinstance(held, dict):
            if value in held:
                return False
            held[value] = None
            return True
        if held == value:
            return False
        self.values[tail] = {held: None, value: None}
        return True

    def discard(self, tail: str, value: V) -> bool:
        held = self.values.get(tail)
        if isinstance(held, dict):
            if value not in held:
                return False
            del held[value]
            if len(held) == 1:
                self.values[tail] = next(iter(held))
            return True
        if held is None or held != value:
            return False
        del self.values[tail]
        left = self.lengths[len(tail)] - 1
        if left:
            self.lengths[len(tail)] = left
        else:
            del self.lengths[len(tail)]
        return True

    def find(self, rest: str, found: dict[V, None]) -> None:
        values = self.values
        size = len(rest)
        for length in self.lengths:
            if length <= size:
                held = values.get(rest[:length])
                if isinstance(held, dict):
                    found.update(held)
                elif held is not None:
                    found[held] = None


def _cut(prefix: str) -> int:
    """Return where the slash before the last component stands; -1 if there is none."""
    return prefix.rfind("/", 0, max(0, len(prefix) - 1))


class PrefixMultimap(Generic[V]):
    """A multimap from string prefixes to values; values must be hashable, not None and no dicts."""

    __slots__ = ("_root", "_size", "_trie")

    def __init__(self) -> None:
        # The tails beside each node but the root. A node is there as long as a tail stands beside it.
        self._trie: pygtrie.StringTrie = pygtrie.StringTrie(separator="/")
        # The tails of prefixes without a slash before their last component: a topic always meets them.
        self._root: _Tails[V] = _Tails()
        # How many pairs of prefix and value are held.
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, prefix: str, value: V) -> bool:
        """Put `value` under `prefix`; return False if it stands there already."""
        cut = _cut(prefix)
        tail = prefix[cut + 1 :]
        added = self._root.add(tail, value) if cut < 0 else self._add_below(prefix[:cut], tail, value)
        self._size += added
        return added

    def _add_below(self, node: str, tail: str, value: V) -> bool:
        tails: _Tail[V] | _Tails[V] | None = self._trie.get(node)
        if tails is None:
            self._trie[node] = _Tail(tail, value)
            return True
        if isinstance(tails, _Tail):
            if tails == (tail, value):
                return False
            only = tails
            tails = self._trie[node] = _Tails()
            tails.add(only.tail, only.value)
        return tails.add(tail, value)

    def discard(self, prefix: str, value: V) -> bool:
        """Take `value` from `prefix`; return False if it did not stand there."""
        cut = _cut(prefix)
        tail = prefix[cut + 1 :]
        node = prefix[: max(cut, 0)]
        discarded = self._root.discard(tail, value) if cut < 0 else self._discard_below(node, tail, value)
        self._size -= discarded
        return discarded

    def _discard_below(self, node: str, tail: str, value: V) -> bool:
        tails: _Tail[V] | _Tails[V] | None = self._trie.get(node)
        if isinstance(tails, _Tails):
            discarded = tails.discard(tail, value)
            if not tails.values:
                del self._trie[node]
            return discarded
        if tails != (tail, value):
            return False
        del self._trie[node]
        return True

    def find(self, topic: str) -> dict[V, None]:
        """Return the values of every prefix of `topic`, each once, as the keys of a new dict."""
        found: dict[V, None] = {}
        self._root.find(topic, found)
        for step in self._trie.prefixes(topic):
            step.value.find(topic[len(step.key) + 1 :], found)
        return found


class Change(NamedTuple):
    """Prefixes that are wanted from now on, and prefixes that are wanted no longer."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


NOTHING = Change()
