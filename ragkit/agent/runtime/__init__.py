"""Background threads and the cancellation of runs."""
