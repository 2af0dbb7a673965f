"""Receivers: the handler, its bounded queue, what it may receive and hold, its counters."""
