"""What a worker is told: the settings of the hub, without what belongs to the hub as a whole."""

from __future__ import annotations

import msgspec

from hub.settings.config import merge
from hub.settings.keys import KEYS, value_at
from peers.workers.orders import Orders, of_worker, tree_of

CORE = bytes(range(16))
LISTEN = ("tcp://127.0.0.1:7400",)

GIVEN = {
    "name": "hub",
    "workers": 4,
    "listen": ["tcp://127.0.0.1:0", "unix:///run/hub.sock"],
    "peers": ["tcp://127.0.0.1:7400"],
    "queue": {"messages": 7},
    "mesh": {"hubs": 77},
    "access": {"peer_token": "/etc/token", "anonymous": "member"},
    "journal": {"path": "/var/journal", "tier": "/var/tier"},
    "stores": {"open": ["a=:memory:", "b=:memory:"], "feeds": ["a=/a"]},
    "zeek": {"masters": ["a"], "clones": ["zeek/known/hosts=b"]},
    "drain": {"clients_per_s": 100},
}
SETTINGS, _ = merge([("a test", GIVEN)])


def test_a_worker_has_the_settings_of_the_hub() -> None:
    orders = Orders(tree_of(of_worker(SETTINGS, LISTEN, CORE)), "hub", 2, 5)
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(orders), type=Orders)
    found = sent.loaded().settings
    changed = {path: value_at(found, path) for path in KEYS if value_at(found, path) != value_at(SETTINGS, path)}
    assert changed == {
        "listen": LISTEN,
        "peers": (),
        "access.peer_token": "",
        "journal.path": "",
        "journal.tier": "",
        "journal.of": CORE.hex(),
        "stores.open": (),
        "stores.feeds": (),
        "zeek.masters": (),
        "zeek.clones": (),
        "drain.clients_per_s": 25,
    }


def test_a_journal_elsewhere_is_that_of_workers_too() -> None:
    settings = msgspec.structs.replace(SETTINGS, journal=msgspec.structs.replace(SETTINGS.journal, path="", of="far"))
    assert of_worker(settings, LISTEN, CORE).journal.of == "far"


def test_somebody_is_always_moved_off() -> None:
    slow = msgspec.structs.replace(SETTINGS, drain=msgspec.structs.replace(SETTINGS.drain, clients_per_s=1))
    assert of_worker(slow, LISTEN, CORE).drain.clients_per_s == 1


def test_names_of_workers() -> None:
    assert Orders({}, "hub", 2, 5).own_name == "hub/2"
    assert Orders({}, "x" * 64, 12, 1).own_name == "x" * 61 + "/12"
    assert Orders({}, "ü" * 32, 1, 1).own_name == "ü" * 31 + "/1"
