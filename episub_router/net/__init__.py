"""What the router keeps about the network around it: addresses, sequence ids, signatures."""
