"""When a link shows its token afresh."""

from __future__ import annotations

from hub.frame import iterate_frames
from hub.settings.config import ConfigError
from peers.links.link import LinkProof
from peers.wire.control import Renewal, decode_token


class Far:
    def __init__(self) -> None:
        self.token = "first"
        self.error: ConfigError | None = None
        self.told: list[str] = []
        self.proof = LinkProof(self.read, self.told.append)

    def read(self) -> str:
        if self.error is not None:
            raise self.error
        return self.token

    def shown(self, now_s: float) -> list[Renewal]:
        return [decode_token(frame.body) for frame in iterate_frames(self.proof.next(now_s))]


def test_what_holds_for_good_is_not_shown_again() -> None:
    far = Far()
    assert far.shown(1e9) == []
    far.proof.hold(None, 0.0)
    assert far.shown(1e9) == []


def test_before_it_ends() -> None:
    far = Far()
    far.proof.hold(100.0, 1000.0)
    assert far.shown(1079.0) == []
    far.token = "second"
    assert far.shown(1080.0) == [Renewal(1, "second")]
    assert far.shown(1081.0) == []
    far.proof.hold(100.0, 1081.0)
    assert far.shown(1160.0) == []
    assert far.shown(1161.0) == [Renewal(2, "second")]
    far.proof.hold(None, 1161.0)
    assert far.shown(1e9) == []


def test_it_is_tried_again() -> None:
    far = Far()
    far.proof.hold(100.0, 0.0)
    far.error = ConfigError("peer.token", "", "there is no such file")
    shown = [now_s for now_s in range(200) if far.shown(float(now_s)) or (len(far.told) > 0 and far.told.pop())]
    assert shown == [80, 90, 95, 98, 99]


def test_an_empty_setting() -> None:
    far = Far()
    far.token = ""
    far.proof.hold(100.0, 0.0)
    assert [far.shown(float(now_s)) for now_s in range(200)] == [[]] * 200
