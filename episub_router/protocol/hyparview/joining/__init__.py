"""What a node remembers of the JOINs and the requests that it has sent."""
