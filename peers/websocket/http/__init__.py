"""HTTP without sockets: requests with bodies, what is published in them, and streams of events (docs/http.md)."""
