"""What a peer hub is told over a link: news of the mesh, origins of messages, and accounts of what was sent."""
