"""Office documents: texts, presentations and sheets."""
