"""What was measured: one file for each result, the program that makes them, and their tables."""
