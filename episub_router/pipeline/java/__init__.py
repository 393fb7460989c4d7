"""The JVM beside this process: its start, what it is asked, and its end."""
