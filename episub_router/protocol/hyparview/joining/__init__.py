"""What a joining node remembers of the JOINs that it has sent."""
