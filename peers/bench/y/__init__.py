"""`hub bench scenario y`: pairs of numbers, through the hub, to a service that adds and one that multiplies.

```
                                   ┌──▶ adding service (process)
requester (process) ──▶ the hub ───┤
   checks every result  (process)  └──▶ multiplying service (process)
```

| file | |
|---|---|
| `plan` | what is asked for |
| `records` | records with a header of 8 bytes in NumPy arrays: made, answered and checked |
| `numbers` | the same for pairs that travel one by one |
| `orders` | what the command and its workers tell each other |
| `requester`, `singly`, `batched` | the worker that asks, one pair or one array at a time |
| `service` | the worker that adds or multiplies |
| `stage` | all processes, set up and put away |
| `figures` | what follows from what was counted, and how it is shown |
"""
