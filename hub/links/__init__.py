"""Other hubs and gateways as receivers: their interests, and the announcements to them."""
