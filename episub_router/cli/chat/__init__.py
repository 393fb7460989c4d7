"""`episub chat`: a room whose members miss no message."""
