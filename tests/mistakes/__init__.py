"""The mistakes that users are most likely to make, each with the exact words and the exit code that it is met with."""
