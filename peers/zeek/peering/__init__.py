"""Peering with Zeeks over sockets: the shell around `peers.zeek.native`."""
