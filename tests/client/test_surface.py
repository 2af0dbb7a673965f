"""What is public is listed and pinned: the names of each package for programs, and what each class has for them."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import hub
import peers.client
import peers.embedding
import pyspark_hub
from peers.client import (
    CallbackSubscription,
    Client,
    ConsumerStream,
    MessageStream,
    Service,
    ServiceName,
    Store,
    StoreReplica,
    StoreWatch,
    Writer,
    blocking,
)
from peers.client.history import History

ROOT = Path(__file__).parents[2]
DOCUMENTS = "".join((ROOT / "docs" / f"{name}.md").read_text() for name in (
    "clients", "requests", "names-and-labels", "journal", "consumers", "shared-memory", "embedding", "spark", "stores",
))  # fmt: skip

SURFACES = {
    hub: ["__version__"],
    blocking: [
        "BlockingClient",
        "BlockingConsumedMessage",
        "BlockingConsumerStream",
        "BlockingHistory",
        "BlockingService",
        "BlockingServiceName",
        "BlockingStore",
        "BlockingStoreReplica",
        "BlockingStoreWatch",
        "BlockingStream",
        "BlockingSubscription",
        "BlockingWriter",
        "connect",
    ],
    peers.embedding: ["BlockingHub", "Hub"],
    pyspark_hub: ["DefaultSource"] if find_spec("pyspark") else [],
}
"""Names of packages, of Spark's only where Spark is installed.

Those of `peers.client` are in test_documentation.py, those of the classes below."""

CLASSES: dict[type, set[str]] = {
    Client: {
        "abort", "allocate", "allocate_nowait", "claim", "close", "commit", "consume", "drain", "dropped_messages",
        "ended", "hub", "journal", "names", "publish", "publish_confirmed", "publish_nowait", "publish_packed",
        "publish_packed_nowait", "read", "remove_consumer", "request", "request_many", "request_nowait",
        "request_packed", "request_packed_nowait", "serve", "serve_batches", "stage", "statistics", "store",
        "subscribe", "subscribe_callback", "subscribe_name", "subscribe_rule", "wait_closed",
        "writer",
    },
    MessageStream: {
        "batch", "batch_nowait", "breaks", "buffered_bytes", "close", "close_nowait", "ended", "epoch", "live",
        "lost_messages", "open", "opened", "position", "prefixes", "receive",
    },
    CallbackSubscription: {"breaks", "close", "close_nowait", "lost_messages", "open", "prefixes"},
    Service: {"close", "failures", "open", "prefixes", "requests", "running"},
    ServiceName: {"labels", "name", "owned", "queue", "reason", "relabel", "release", "wait_lost", "wait_owned"},
    History: {"blocks", "columns", "next", "pieces"},
    Writer: {"name", "publish"},
    Store: {
        "append", "clear", "decrement", "entries", "entry", "erase", "exists", "get", "increment", "index", "insert",
        "keys", "name", "pop", "push", "put", "put_many", "put_nowait", "put_unique", "remove", "replica", "state",
        "watch", "written",
    },
    StoreReplica: {"age_s", "at_least", "close", "get", "items", "number", "open", "version"},
    StoreWatch: {"batch", "close", "ended", "open", "receive"},
    ConsumerStream: {
        "ack", "ack_up_to", "batch", "close", "ended", "in_progress", "late_acks", "nak", "name", "open", "receive",
    },
}  # fmt: skip
"""What programs may use of each class; the same holds for the blocking ones, see test_signatures.py."""

INSIDE: dict[type, set[str]] = {
    MessageStream: {"finish", "put", "put_break", "put_gap"},
    CallbackSubscription: {"finish", "put", "put_break", "put_gap"},
    Service: {"cancel", "disconnected", "receive"},
    ServiceName: {"end", "ended", "stand", "wish"},
}
"""What the parts of a client call of them; their docstrings say so, and no document names it."""

SERVER_ONLY = {
    "apsw",
    "cryptography",
    "cyclopts",
    "jwt",
    "prometheus_client",
    "rich",
    "structlog",
    "sortedcontainers",
    "uvloop",
}


@pytest.mark.parametrize("package", SURFACES, ids=lambda package: package.__name__)
def test_packages(package: object) -> None:
    names = SURFACES[package]  # type: ignore[index]
    assert sorted(getattr(package, "__all__", ["__version__"])) == names
    assert all(hasattr(package, name) for name in names)


@pytest.mark.parametrize("owner", CLASSES, ids=lambda owner: owner.__name__)
def test_classes(owner: type) -> None:
    """Each has what is listed here for programs, and nothing else without an underscore but what its parts call."""
    set_on_self = re.findall(
        r"self\.([a-z]\w*)(?:: [^=]+)? = ", Path(sys.modules[owner.__module__].__file__ or "").read_text()
    )
    found = {name for name in dir(owner) if not name.startswith("_")}
    assert found - INSIDE.get(owner, set()) <= CLASSES[owner]
    assert CLASSES[owner] - found <= set(set_on_self)
    described = {
        name for name in found - INSIDE.get(owner, set()) if not inspect.ismemberdescriptor(getattr(owner, name))
    }
    assert all(getattr(owner, name).__doc__ for name in described)


def test_documents_tell_of_all_calls() -> None:
    missing = {name for name in CLASSES[Client] if not re.search(rf"\b{name}\b", DOCUMENTS)}
    assert not missing


def test_a_client_needs_no_hub() -> None:
    code = (
        "import sys, peers.client, peers.client.blocking; "
        "print(*(name for name, module in sys.modules.items() if module is not None))"
    )
    command = [sys.executable, "-c", code]
    modules = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=60).stdout.split()
    assert not SERVER_ONLY.intersection(modules)
    rooms = {module.split(".")[1] for module in modules if module.startswith("peers.")}
    assert rooms <= {"client", "shm", "stores", "transport", "values", "wire"}
    of_stores = {module for module in modules if module.startswith("peers.stores.")}
    assert of_stores <= {"peers.stores.operations", "peers.stores.wire"}


def test_names_that_are_looked_for_in_the_wrong_package() -> None:
    with pytest.raises(ImportError, match=r"write `from peers\.embedding import Hub`"):
        from hub import Hub  # type: ignore[attr-defined]  # noqa: F401
    assert not hasattr(hub, "nothing")
