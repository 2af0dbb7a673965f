"""`hub bench`: it measures how fast a hub is, what it costs, and whether it loses anything.

```
                      ┌─ publishers: a process each ──▶         ──▶ subscribers: a process or more ─┐
the command ── Stage ─┤                                 the hub                                     ├── Board
                      └─ bystanders: connections ◀────▶         (a process of its own)              ┘
```

What makes and reads messages is a process of its own, so that the operating system can tell what the hub itself costs.

| file | what it is |
|---|---|
| `plan`, `running_hub` | what is asked for; the hub that is measured |
| `stage`, `worker`, `board` | all processes of one benchmark; one of them; the counters that they share |
| `publisher`, `subscriber`, `bystanders` | who sends, who reads, who only stands by |
| `line`, `framing` | one connection; how what it brings is cut |
| `layout`, `template`, `sequence`, `tally` | what messages look like, how they are made, numbered and accounted for |
| `measurement`, `histogram`, `usage`, `environment` | the figures of a run, and what they follow from |
| `stream`, `idle_peers`, `y`; `report`, `plot` | the three benchmarks; how each of them is shown |

Not here: the goals of the project and the comparison with other brokers, which are in `tests/benchmarks`.
"""
