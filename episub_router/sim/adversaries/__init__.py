"""Hostile members of a simulated overlay: what they do, and which nodes they are.

Each is an honest node, the same core, but for its attack. One family of attacks a file; `settings`
has what a scenario can say of them, `cast` the choice of nodes.
"""
