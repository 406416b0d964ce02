"""Runners of index builds, and the worker that they share."""
