"""TCP and Unix sockets: the thin shell around `peers.wire`, the listener, and the dialler of links."""
