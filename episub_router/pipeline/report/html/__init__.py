"""The report as an HTML page: its words, charts and drawings."""
