"""Stores that are kept in files, one SQLite database each.

| file | |
|---|---|
| `in_file` | the keeper of a store: what waits, what is being written, who is told |
| `database` | the file itself: its tables, what is read at the start, one transaction |
| `unkept` | the changes that are not in the file yet, the last one of each key |
"""
