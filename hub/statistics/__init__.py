"""What the hub reports of itself: events, losses, busy topics, the last ten minutes."""
