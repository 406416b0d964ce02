"""131 files that nobody should have to index, each with what must become of it. All are made here by code."""
