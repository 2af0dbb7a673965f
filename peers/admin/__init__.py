"""What admins ask of a hub, and others by the policy, as services of the hub itself under `$hub/`: see `services`."""
