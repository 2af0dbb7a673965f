"""Which trace a message says that it belongs to."""

from __future__ import annotations

import pytest

from hub.traceparent import TraceParent, traceparent_of

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"traceparent=00-{TRACE}-{SPAN}-01"


def test_what_w3c_calls_a_traceparent() -> None:
    """Among other labels; its last bit says whether the trace is recorded."""
    assert traceparent_of(["door", PARENT, "urgent"]) == TraceParent(TRACE, SPAN, is_sampled=True)
    assert traceparent_of([f"traceparent=00-{TRACE}-{SPAN}-fe"]) == TraceParent(TRACE, SPAN, is_sampled=False)


def test_later_versions_may_say_more() -> None:
    """What stands behind is passed over, as W3C Trace Context asks."""
    assert traceparent_of([f"traceparent=01-{TRACE}-{SPAN}-01-more"]) == TraceParent(TRACE, SPAN, is_sampled=True)


@pytest.mark.parametrize(
    "label",
    [
        "traceparent",
        "traceparent=",
        "Traceparent=00-" + PARENT[15:],
        f"traceparent=ff-{TRACE}-{SPAN}-01",
        f"traceparent=00-{'0' * 32}-{SPAN}-01",
        f"traceparent=00-{TRACE}-{'0' * 16}-01",
        f"traceparent=00-{TRACE.upper()}-{SPAN}-01",
        f"traceparent=00-{TRACE}-{SPAN}-01-more",
        f"traceparent=00-{TRACE}-{SPAN}",
        f"traceparent=00-{TRACE}{SPAN}-01",
    ],
)
def test_what_is_none_is_a_label_like_any_other(label: str) -> None:
    """Nothing is refused for it."""
    assert traceparent_of([label]) is None
    assert traceparent_of([label, PARENT]) == TraceParent(TRACE, SPAN, is_sampled=True)
