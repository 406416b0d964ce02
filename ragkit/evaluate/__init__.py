"""Whether a knowledge base finds and answers what it should: questions, figures, reports. Knows no pipeline."""
