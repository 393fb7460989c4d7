"""Proves the promises of docs/testbed.md of a history."""
