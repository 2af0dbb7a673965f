"""All targets."""

from __future__ import annotations

from tests.fuzz import hub_targets, journal_targets, text_targets, zeek_targets

TARGETS = (*hub_targets.TARGETS, *journal_targets.TARGETS, *text_targets.TARGETS, *zeek_targets.TARGETS)
