"""Messages as bytes: the layouts of frames, batches, runs of frames with one route."""
