"""Other hubs and gateways as receivers: what they want, and what is announced to them."""
