"""ZMTP 3, the protocol of ZeroMQ, without I/O: greetings, frames, commands, one side of a connection, subscriptions."""
