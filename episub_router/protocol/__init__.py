"""Episub as plain state machines: events and `now` in, effects out.

Start with `topic.Topic`, the union of the two machines in `membership` and `broadcast`;
`docs/design.md` draws how they fit together. Nothing in here does I/O, reads a clock, logs
or shares state: a driver (the router, the simulator, a test) does that around it.
"""
