"""Break the real command line on a changing folder, thousands of times, and count what was lost.

`python -m tests.torture --help` tells how. What each kind of trial does stands at the head of its file; what must hold
afterwards stands in `oracle.py`.
"""
