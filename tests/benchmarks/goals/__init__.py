"""The goals of the project for its hub: `python -m tests.benchmarks.goals` measures them and says which are reached."""
