"""A run as one file that can be checked without us: written, verified, and made into a store of its own."""
