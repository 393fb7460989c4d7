"""Scenarios: their settings, and reading them from TOML files."""
