"""The trace of a run: nodes that note what happens, and the files that it is written to."""
