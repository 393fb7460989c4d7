"""What applications see of a topic: events, reasons, and warnings of what had no room."""
