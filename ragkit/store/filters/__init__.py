"""The filter language: parsing, evaluation and translation for the stores."""
