"""The routers that can be compared, each as a `Node` of the simulated network."""
