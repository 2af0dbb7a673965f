"""The hub as a running program: the one place where settings are read and everything is put together."""
