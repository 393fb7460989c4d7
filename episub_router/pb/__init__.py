"""Code generated from proto/ by proto/generate.sh."""
