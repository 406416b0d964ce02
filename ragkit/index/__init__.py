"""Stations 1 to 4 kept up to date: the catalog, what a run has to do, how it is done, and whether it holds."""
