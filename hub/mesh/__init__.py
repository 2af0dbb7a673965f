"""Many hubs as one: who is linked with whom, who wants what, and on which links a message goes on."""
