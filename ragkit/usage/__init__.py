"""What was used and what it cost: tokens, prices, the meter of a run, limits, analytics."""
