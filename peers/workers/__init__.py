"""One machine, many cores: a core, and workers that share the ports, linked with it as hubs of a mesh are."""
