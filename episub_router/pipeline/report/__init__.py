"""From answers to a page for people, as HTML, Markdown and JSON."""
