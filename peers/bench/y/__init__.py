"""`hub bench scenario y`: pairs of numbers, through the hub, to a service that adds and one that multiplies.

```
                                   ┌──▶ adding service (process)
requester (process) ──▶ the hub ───┤
   checks every result  (process)  └──▶ multiplying service (process)
```

| file | |
|---|---|
| `plan` | what is asked for |
| `operation` | add and multiply, and where each is asked |
| `records` | records with a header of 8 bytes in NumPy arrays: made, answered and checked |
| `bodies` | how arrays travel: as bytes, or in shared memory |
| `requester`; `singly`, `batched` | the worker that asks; one pair at a time, one array at a time |
| `score` | what has become of the pairs of one run |
| `service` | the worker that adds or multiplies |
| `loop` | what workers have in common |
| `stage` | all processes, set up and put away |
| `figures` | what follows from what was counted, and how it is shown |
"""
