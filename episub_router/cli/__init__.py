"""The `episub` command."""
