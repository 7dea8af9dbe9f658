"""The files: what is on disk, what was kept of it, and how to bring it back."""
