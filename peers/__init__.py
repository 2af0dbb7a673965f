"""Everything of topichub that talks to the outside: wire, TCP, WebSocket, clients, daemon and command line.

`peers` imports `hub`, never back.
"""
