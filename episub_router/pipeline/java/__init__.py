"""The JVM beside this process: its start, and what it is asked."""
