"""Real nodes in virtual time, in the Shadow simulator."""
