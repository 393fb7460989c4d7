"""`episub demo`: a broadcast among many hosts in one process."""
