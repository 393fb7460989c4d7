"""Programs that only the testbed runs."""
