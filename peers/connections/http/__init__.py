"""Plain HTTP on the port for WebSockets."""
