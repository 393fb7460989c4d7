"""Real processes, real networks, real faults: `python -m interop.testbed SCENARIO.toml`."""
