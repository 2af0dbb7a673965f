"""Requests and their one answer each.

| file | |
|---|---|
| `requests` | what is asked, by whom and of whom; who gets which answer |
| `services` | which prefixes are served, and who of several is asked |
| `pending` (`_block.pyx`) | what is pending, as the requester knows it and as the service knows it |
| `deadlines` | what is due when |
| `answers` | answers in a row that travel together; values of one frame for several requesters |
| `hub_services`, `later` | what the hub itself answers, under `$hub/`, in its turn or in a later one |
| `directed` | what hubs of the mesh ask each other, under `$hub/at/` |
| `counters` | how many requests had which fate |

The frames of both are in `hub.request_frame`; what waits for a handler that does not read is in `hub.waiting`.
"""
