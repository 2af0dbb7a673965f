"""What a command tells on standard error."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from hub.errors import RejectedError
from hub.overflow import Overflow
from peers.cli.notices import Notices
from peers.cli.url import HubFlags
from peers.client import BadMessage
from peers.wire.hello import Hello, QueueWish

HELLO = Hello(protocol=1, role="hub", id=bytes(16), name="h\x1b[2J", queue=QueueWish(overflow=Overflow.DROP_NEWEST))


@pytest.fixture(autouse=True)
def _restored_logger() -> Iterator[None]:
    """Give the client's logger back as it was: a command silences it for its whole process."""
    log = logging.getLogger("peers.client")
    before = log.propagate, list(log.handlers)
    yield
    log.propagate, log.handlers[:] = before


async def test_losses_are_told_with_the_policy_and_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    notices = Notices("sub")
    options = notices.options(HubFlags(name="me"))
    options["on_connect"](HELLO)
    for count in (10, 7):
        options["on_dropped"](count)
    notices.finish()
    assert capsys.readouterr().err == (
        "hub sub: 17 messages lost by drop-newest; read faster, or ask for a larger queue\n"
    )


async def test_a_total_follows_when_losses_were_told_before(capsys: pytest.CaptureFixture[str]) -> None:
    notices = Notices("sub")
    dropped = notices.options(HubFlags(name="me"))["on_dropped"]
    dropped(10)
    notices._tell_dropped()
    dropped(7)
    notices.finish()
    said = capsys.readouterr().err.splitlines()
    assert [line.split(" lost")[0] for line in said] == [
        "hub sub: 10 messages",
        "hub sub: 7 messages",
        "hub sub: 17 messages",
    ]


async def test_lost_and_new_connections_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    options = Notices("sub").options(HubFlags(name="me"))
    options["on_connect"](HELLO)
    assert not capsys.readouterr().err
    options["on_disconnect"]("going away (1001)")
    options["on_connect"](HELLO)
    assert capsys.readouterr().err == (
        "hub sub: connection lost, trying again: going away (1001)\nhub sub: connected again to hub h\\u001b[2J\n"
    )


async def test_nothing_to_tell_is_nothing_told(capsys: pytest.CaptureFixture[str]) -> None:
    Notices("sub").finish()
    assert not capsys.readouterr().err


async def test_bad_messages_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    notices = Notices("sub")
    notices.options(HubFlags(name="me"))["on_bad_message"](BadMessage("/a", b"\xc1", 3, "not msgpack"))
    notices.finish()
    assert capsys.readouterr().err == "hub sub: 3 messages not shown: no msgpack\n"


async def test_the_first_refusal_is_remembered() -> None:
    notices = Notices("pub")
    rejected = notices.options(HubFlags(name="me"))["on_rejected"]
    rejected(RejectedError(1008, "not allowed"))
    rejected(RejectedError(1009, "too big"))
    assert notices.rejection == "not allowed (1008)"


async def test_the_token_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_TOKEN", "secret")
    assert Notices("sub").options(HubFlags(name="me"))["token"] == "secret"
