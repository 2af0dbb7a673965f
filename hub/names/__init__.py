"""Service names: unique, claimed by one client at a time, known to peer hubs.

| file | |
|---|---|
| `grammar` | what a name may look like |
| `claim` | a claim to a name, and what its owner is told |
| `contest` | the claims to one name, and whose it is |
| `register` | all names of a hub, and who owns them |
| `names` | how they come, change owners and go, and who is told |
"""
