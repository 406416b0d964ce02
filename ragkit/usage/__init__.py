"""Usage and cost: tokens, prices, the meter of a run, limits, the ledger and tool analytics."""
