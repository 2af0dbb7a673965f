"""`hub bench`: it measures how fast a hub is, what it costs, and whether it loses anything.

What makes and reads messages is a process of its own, so that the system can tell what the hub itself costs. `Stage`
sets up hub, publishers and subscribers; they share the counters of a `Board`. The goals of the project and the
comparison with other brokers are in `tests/benchmarks`.
"""
