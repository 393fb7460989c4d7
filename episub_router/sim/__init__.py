"""A deterministic simulator that drives the protocol core in virtual time.

`runner.run(scenario, seed)` is the whole of it: a pure function from a scenario and a seed to
a result, with the same answer every time, in every process. Scenarios are the TOML files
under `scenarios/`; `episub sim` is the command line; `docs/simulator.md` is the cookbook.
"""
