"""Requests to the hub, each carried out by one function for all protocols."""
