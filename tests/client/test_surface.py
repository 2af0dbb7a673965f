"""Programs with an event loop and programs with threads say the same, with the same arguments."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from inspect import Parameter
from pathlib import Path
from typing import Any

import pytest

import hub
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
)
from peers.client.blocking import (
    BlockingClient,
    BlockingConsumerStream,
    BlockingHistory,
    BlockingService,
    BlockingServiceName,
    BlockingStore,
    BlockingStoreReplica,
    BlockingStoreWatch,
    BlockingStream,
    BlockingSubscription,
    BlockingWriter,
)
from peers.client.journal import History

ROOT = Path(__file__).parents[2]
DOCUMENTS = "".join((ROOT / "docs" / f"{name}.md").read_text() for name in (
    "clients", "requests", "names-and-labels", "journal", "consumers", "shared-memory", "embedding", "spark", "stores",
))  # fmt: skip

SERVER_ONLY = {"apsw", "cryptography", "cyclopts", "jwt", "prometheus_client", "rich", "structlog", "uvloop"}

TWINS = [
    (Client, BlockingClient),
    (MessageStream, BlockingStream),
    (CallbackSubscription, BlockingSubscription),
    (Service, BlockingService),
    (ServiceName, BlockingServiceName),
    (History, BlockingHistory),
    (ConsumerStream, BlockingConsumerStream),
    (Writer, BlockingWriter),
    (Store, BlockingStore),
    (StoreReplica, BlockingStoreReplica),
    (StoreWatch, BlockingStoreWatch),
]

ASYNCIO_ALONE = {
    # For those within this package who build on it: a stream is a sink, a service and a name are given what comes.
    (MessageStream, "put"),
    (MessageStream, "put_break"),
    (MessageStream, "put_gap"),
    (MessageStream, "finish"),
    (CallbackSubscription, "put"),
    (CallbackSubscription, "put_break"),
    (CallbackSubscription, "put_gap"),
    (CallbackSubscription, "finish"),
    (CallbackSubscription, "open"),
    (Service, "cancel"),
    (Service, "disconnected"),
    (Service, "receive"),
    (ServiceName, "end"),
    (ServiceName, "ended"),
    (ServiceName, "stand"),
    (ServiceName, "wish"),
    # A thread waits for what is closed; a task need not.
    (MessageStream, "close_nowait"),
    (CallbackSubscription, "close_nowait"),
    # Reading a stream that is not open raises on both sides; `BlockingStream` asks.
    (MessageStream, "opened"),
}
"""What only the asyncio client has, and why."""

BLOCKING_ALONE = {
    (BlockingClient, "open"),  # what `connect` calls
    (BlockingClient, "stage_nowait"),  # asyncio has tasks
    (BlockingStream, "iterate"),  # asyncio has `asyncio.timeout`
    (BlockingStoreWatch, "iterate"),
}
"""What only the blocking client has, and why."""


def public(owner: type) -> dict[str, Any]:
    return {name: getattr(owner, name) for name in dir(owner) if not name.startswith("_")}


def parameters(function: Any) -> dict[str, Parameter]:
    found = inspect.signature(function).parameters
    return {name: parameter.replace(annotation=Parameter.empty) for name, parameter in found.items() if name != "self"}


def slots_of(owner: type) -> set[str]:
    return {name for name in inspect.getsource(owner).split() if name.startswith("self.")}


@pytest.mark.parametrize(("here", "there"), TWINS)
def test_twins(here: type, there: type) -> None:
    """Each public call of one is a call of the other: same names, order, kinds and defaults.

    Where something is waited for, threads may say `timeout_s`, by its name only, and wait for ever if they do not.
    """
    mine, others = public(here), public(there)
    mine |= {name[5:]: None for name in slots_of(here) if name[5:].isidentifier() and not name.startswith("self._")}
    assert {(there, name) for name in others.keys() - mine.keys()} <= BLOCKING_ALONE
    assert {(here, name) for name in mine.keys() - others.keys()} <= ASYNCIO_ALONE
    for name in mine.keys() & others.keys():
        if not inspect.isfunction(others[name]):
            continue
        wanted, given = parameters(mine[name]), parameters(others[name])
        if "timeout_s" in given and "timeout_s" not in wanted:
            waits = given.pop("timeout_s")
            assert (waits.kind, waits.default) == (Parameter.KEYWORD_ONLY, None), f"{there.__name__}.{name}"
        assert list(given.items()) == list(wanted.items()), f"{there.__name__}.{name}"


@pytest.mark.parametrize("owner", [Client, BlockingClient])
def test_options_have_names(owner: type) -> None:
    for name, function in public(owner).items():
        if inspect.isfunction(function):
            optional = [
                each.name
                for each in parameters(function).values()
                if each.kind is Parameter.POSITIONAL_OR_KEYWORD and each.default is not Parameter.empty
            ]
            assert set(optional) <= {"labels", "prefix"}, name


def test_documents_tell_of_all_calls() -> None:
    assert not [name for name in public(Client) if not re.search(rf"\b{name}\b", DOCUMENTS)]


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
