"""The messages to a peer hub over a link: news of the mesh, origins of messages, and accounts of what was sent."""
