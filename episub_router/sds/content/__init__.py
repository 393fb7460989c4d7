"""What applications send and get: contents, sealed and cut to size, and views of the log."""
