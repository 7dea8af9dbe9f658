"""Blobs of the project's own git, taken over as they are packed: no file need be read for them."""
