"""Receivers: the handler, its bounded queue, its rights, its allowance of subscriptions, its counters."""
