"""Benchmarks: ours beside git's plumbing on the same files, as ratios in one run. `python -m bench` in `tests/`."""
