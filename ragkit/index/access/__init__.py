"""Who may read which documents."""
