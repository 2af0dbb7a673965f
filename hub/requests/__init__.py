"""Requests and their one answer each.

| file | |
|---|---|
| `layout`, `shared` | REQUEST and REPLY frames, and what a status means; those whose values are in shared memory |
| `requests` | what is asked, by whom and of whom; who gets which answer |
| `services` | which prefixes are served, and who of several is asked |
| `block` (`_block.pyx`), `pending` | what is pending, as who has asked knows it and as who is to answer |
| `deadlines` | what is due when |
| `runs`, `cutting` | answers in a row that travel together; values of one frame for several requesters |
| `own` | what the hub itself answers, under `$hub/` |
| `lane` | what waits for a handler whose outlet takes no bytes |
| `limits`, `counters` | how much may be pending, and for how long; what is counted |
"""
