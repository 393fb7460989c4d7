"""The report as an HTML page: its words and charts."""
