"""Interrupt the real command line on a changing folder, thousands of times, and count the faults.

See `python -m tests.torture --help`. The docstring of each module describes its kind of trial; `oracle.py` defines the
invariants.
"""
