"""Plain HTTP without sockets: requests, bodies, publications."""
