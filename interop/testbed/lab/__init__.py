"""What a run consists of: namespaces, processes, the faults done to them."""
