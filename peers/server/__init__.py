"""The hub as a process's connections see it: who is connected, who is linked, whose time is up, what is counted."""
