"""Subscriptions to prefixes, and the cache of routes in front of the multimap."""
