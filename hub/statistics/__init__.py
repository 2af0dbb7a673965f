"""Reports of the hub: events, losses, busy topics, the last ten minutes."""
