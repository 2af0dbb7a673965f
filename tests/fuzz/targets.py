"""All targets."""

from __future__ import annotations

from tests.fuzz.client_targets import CLIENT_TARGETS
from tests.fuzz.hub_targets import HUB_TARGETS
from tests.fuzz.journal_targets import JOURNAL_TARGETS
from tests.fuzz.mesh_targets import MESH_TARGETS
from tests.fuzz.segment_targets import SEGMENT_TARGETS
from tests.fuzz.services_targets import SERVICES_TARGETS
from tests.fuzz.store_targets import STORE_TARGETS
from tests.fuzz.stores_targets import STORES_TARGETS
from tests.fuzz.text_targets import TEXT_TARGETS
from tests.fuzz.tier_targets import TIER_TARGETS
from tests.fuzz.users_targets import USERS_TARGETS
from tests.fuzz.zmtp_targets import ZMTP_TARGETS

try:
    from tests.fuzz.curve_targets import CURVE_TARGETS
except ImportError as error:  # PyNaCl is not installed
    if not str(error.name).startswith("nacl"):
        raise
    CURVE_TARGETS = ()

__all__ = ["TARGETS"]

TARGETS = (
    *HUB_TARGETS,
    *CLIENT_TARGETS,
    *JOURNAL_TARGETS,
    *SEGMENT_TARGETS,
    *TIER_TARGETS,
    *MESH_TARGETS,
    *TEXT_TARGETS,
    *STORE_TARGETS,
    *STORES_TARGETS,
    *SERVICES_TARGETS,
    *USERS_TARGETS,
    *ZMTP_TARGETS,
    *CURVE_TARGETS,
)
