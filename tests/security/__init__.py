"""What a hostile member costs an honest node: docs/security.md."""
