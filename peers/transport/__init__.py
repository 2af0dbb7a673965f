"""What both ends of a connection need, the hub's and a client's: addresses, sockets, liveness, time before dialling."""
