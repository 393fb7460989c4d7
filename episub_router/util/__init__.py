"""Generic helpers that know nothing of Episub: every layer may import them, they import none."""
