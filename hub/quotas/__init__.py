"""What each user holds of the hub, over all connections, and how much that may be."""
