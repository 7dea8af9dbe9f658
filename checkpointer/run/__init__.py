"""The one way in: a run around a command, and `open_run` for agent loops."""
