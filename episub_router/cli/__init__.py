"""The command `episub`."""
