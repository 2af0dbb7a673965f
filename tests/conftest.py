"""The hypothesis profile of all tests: repeatable and quick. `pytest --hypothesis-profile=explore` searches further."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "repeatable",
    deadline=None,  # a slow machine is no failure
    derandomize=True,
    max_examples=80,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "explore",
    parent=settings.get_profile("repeatable"),
    derandomize=False,
    max_examples=2000,
    stateful_step_count=80,
)
settings.load_profile("repeatable")
