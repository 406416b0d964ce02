"""The agent loop: its steps, its state, and the drivers that carry out its effects."""
