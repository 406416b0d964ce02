"""Costs: counted by a server, reported by `ragkit usage`, limited by budgets."""
