"""The sans-IO participant of a channel: events and `now` in, effects out."""
