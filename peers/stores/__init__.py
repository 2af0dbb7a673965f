"""Stores of hubs and clients; `hub.stores` is the part without I/O."""
