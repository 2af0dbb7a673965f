"""What a peer hub is told over a link: filters, services, rules, names, and accounts of what was sent."""
