"""Requests and their one answer each.

| file | |
|---|---|
| `layout` | REQUEST and REPLY frames, and what a status means |
"""
