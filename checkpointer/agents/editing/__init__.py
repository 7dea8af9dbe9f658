"""Configuration files of others, changed without touching a byte that is not ours."""
