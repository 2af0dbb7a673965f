"""Zeek: its values, and Broker's native peering."""
