"""Observers that send the events of a run elsewhere."""
