"""What `ckpt demo` shows: undo in a temporary directory, and an agent loop killed where it hurts."""
