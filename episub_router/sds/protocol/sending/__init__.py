"""Our own messages, and when to speak without one."""
