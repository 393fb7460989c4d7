"""Code generated from proto/episub.proto by proto/generate.sh."""
