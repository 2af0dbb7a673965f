"""Requests and their one answer each. Their frames are in `hub.request_frame`."""
