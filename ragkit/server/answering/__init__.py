"""Running answers: their options, events and log."""
