"""Requests and their one answer each. Their frames are in `hub.messages.request_frame`."""
