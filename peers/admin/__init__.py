"""What admins ask of a hub, and others by the policy, as services of the hub itself under `$hub/`.

| file | |
|---|---|
| `who`, `users` | who is connected; which users there are |
| `state`, `history` | how the hub does, in one sentence, and who has lost what; what it has done before |
| `graph`, `trace` | the hubs and links of the mesh; the ways of a topic, as far as is known |
| `topics` | which topics bring how much |
| `rights` | what whoever asks may do |
| `policy` | what the policy decides |
| `audit` | what was refused, and what admins did, before one looked |
| `settings` | the settings in force, and where each came from |
| `kick` | closes connections |
| `steps` | an answer that takes more than a turn |
| `services` | all of them, as a node has them |
"""
