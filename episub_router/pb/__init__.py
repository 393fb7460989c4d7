"""Generated code: see proto/."""
