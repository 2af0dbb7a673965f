"""One machine, many cores: a core, and workers that share the ports, linked with it as hubs of a mesh are (`workers`).

| file | |
|---|---|
| `workers` | the core's side: starts workers, watches them, lets them reload and stop |
| `worker` | what a worker does, a process of its own |
| `supervision` | when which worker is started, without I/O |
| `process` | one process, with its two sockets |
| `control` | what the core and a worker ask each other beside the link |
| `gathering`, `merging`, `metrics` | what is asked of the whole hub: who is asked, and how answers become one |
| `events` | what any process announces under `$hub/` reaches the subscribers of all |
| `written` | a link whose queue has run out |
| `orders` | which settings a worker has |
"""
