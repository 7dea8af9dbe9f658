"""Objects of git, read and written raw: packs, their indexes, and what a git of the user's made of them."""
