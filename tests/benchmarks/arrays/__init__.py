"""Pairs of numbers that travel in arrays, as bytes or in shared memory, to an adding and a multiplying service.

    python -m tests.benchmarks.arrays [--shared] [--transport tcp] [--batch 65536] [--batches 8] [--repeat 3]

This is `hub bench scenario y` with one request for all pairs of a batch that want the same operation. `records` lays
them out; `workers` is what the requester and the services do; they are started and measured as those of the scenario.
"""
