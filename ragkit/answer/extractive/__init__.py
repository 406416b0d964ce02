"""Answers from passages without a language model."""
