"""Service names: unique, claimed by one client at a time, known to peer hubs."""
