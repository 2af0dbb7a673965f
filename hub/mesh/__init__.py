"""Many hubs as one: the links between hubs, their interests, and the links on which a message goes on."""
