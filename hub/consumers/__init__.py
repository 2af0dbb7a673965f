"""Named consumers, without I/O: positions, deliveries and acknowledgements."""
