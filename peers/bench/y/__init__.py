"""`hub bench scenario y`: pairs of numbers go through the hub to a service that adds and to one that multiplies.

```
                                   ┌──▶ adding service (process)
requester (process) ──▶ the hub ───┤
   checks every result  (process)  └──▶ multiplying service (process)
```

`asking` makes pairs, has them worked out and checks the results; `workers` is what the processes do; `cast` starts and
measures them; `scenario` leads from a plan to a report. Not here: pairs that travel in arrays, which are acceptance
tests of the project (`tests/benchmarks/arrays`).
"""
