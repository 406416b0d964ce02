"""Whole documents: outlines, leads and central sentences, complete look-ups, and the tools that navigate documents."""
