"""The bytes of a channel's messages (S01)."""
