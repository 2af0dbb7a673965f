"""What builds a release from this repository."""
