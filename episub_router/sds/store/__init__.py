"""Where a participant's state is kept."""
