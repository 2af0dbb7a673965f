"""What can be set on a hub: in which unit and range, and what it is without being set.

| file | |
|---|---|
| `ranges` | of what keys are made: units, ranges, and what a text may be |
| `limits` | what a hub takes, and how it lets go |
| `listeners`, `access` | who may connect; who the hub is, and who others are |
| `zeek`, `mesh` | other hubs: Zeeks, and those of the mesh with their service names |
| `journal`, `stores` | what is kept |
| `settings` | all of them, with the short tables: queues, quotas, shared memory, the log |

The annotations carry it all, so that documentation, environment and command line are made from them (`hub.keys`).

Owner of the state: nobody, these are frozen values. The constructors do not check: who builds a `Settings` by hand
vouches for the values. Few keys use 0 for "none" (`limits.drain_s`,
`shm.over_bytes`, `shm.segments`); `limits.memory_bytes` and the keys of `quotas` use it for "as much
as there is allows".
"""
