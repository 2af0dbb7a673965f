"""Named consumers, without I/O: what each has read and acknowledged, and which of its members has which message."""
