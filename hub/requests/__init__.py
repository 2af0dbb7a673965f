"""Requests and their one answer each.

| file | |
|---|---|
| `layout`, `shared` | REQUEST and REPLY frames, and what a status means; those whose values are in shared memory |
| `requests` | what is asked, by whom and of whom; who gets which answer |
| `services` | which prefixes are served, and who of several is asked |
| `pending` (`_block.pyx`) | what is pending, as the requester knows it and as the service knows it |
| `deadlines` | what is due when |
| `answers` | answers in a row that travel together; values of one frame for several requesters |
| `hub_services` | what the hub itself answers, under `$hub/` |
| `lane` | the requests and replies that wait for a handler whose outlet takes no bytes |
| `counters` | how many requests had which fate |
"""
