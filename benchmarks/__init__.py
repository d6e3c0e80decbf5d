"""Benchmarks: densevid timed against a plain version of the same work, in one run. Run from a checkout, not installed.

`python -m benchmarks` lists the subjects; `python -m benchmarks.train --help` explains one. `densevid bench SUBJECT` is
the same command.
"""
