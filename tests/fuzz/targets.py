"""All targets."""

from __future__ import annotations

from tests.fuzz.hub_targets import CLIENT_TARGETS, HUB_TARGETS, SERVICES_TARGETS
from tests.fuzz.journal_targets import JOURNAL_TARGETS, SEGMENT_TARGETS, TIER_TARGETS
from tests.fuzz.text_targets import STORES_TARGETS, TEXT_TARGETS, USERS_TARGETS
from tests.fuzz.zeek_targets import STORE_TARGETS, ZMTP_TARGETS

__all__ = ["TARGETS"]

TARGETS = (
    *HUB_TARGETS,
    *CLIENT_TARGETS,
    *JOURNAL_TARGETS,
    *SEGMENT_TARGETS,
    *TIER_TARGETS,
    *TEXT_TARGETS,
    *STORE_TARGETS,
    *STORES_TARGETS,
    *SERVICES_TARGETS,
    *USERS_TARGETS,
    *ZMTP_TARGETS,
)
