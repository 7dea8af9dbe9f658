"""A checkpoint's tree: the files, and what git trees cannot hold."""
