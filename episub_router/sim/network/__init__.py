"""The simulated network: virtual time, latencies, connections, and the bytes of a message."""
