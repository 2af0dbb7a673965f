"""What admins ask of a hub, as services of the hub itself under `$hub/`.

| file | |
|---|---|
| `who`, `users` | who is connected; which users there are |
| `kick` | connections that are closed |
| `steps` | an answer that takes more than a turn |
| `services` | all of them, as a node has them |
"""
