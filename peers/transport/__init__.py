"""Both ends of a connection: addresses, sockets, TLS, liveness, and waiting before a new attempt."""
