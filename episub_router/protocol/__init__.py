"""Episub as plain state machines: events and `now` in, effects out.

Start with `topic.Topic`, which joins the two machines, `hyparview` (membership) and `plumtree`
(broadcast). Nothing in here does I/O, reads a clock, logs or shares state: a driver (the router,
the simulator, a test) does that around it. docs/design.md draws how they fit together.
"""
