"""What pytest has collected costs nothing while tests run."""

from __future__ import annotations

import gc

import pytest


def test_the_garbage_collector_does_not_walk_over_it(request: pytest.FixtureRequest) -> None:
    walked = {id(one) for one in gc.get_objects()}
    assert not {id(one) for one in request.session.items} & walked
    assert request.node in request.session.items
