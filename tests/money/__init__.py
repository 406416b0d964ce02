"""What runs cost: counted on the wire, reported by usage, held by budgets."""
