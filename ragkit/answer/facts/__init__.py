"""Quantities, names and other facts in questions and passages."""
