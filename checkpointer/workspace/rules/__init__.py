"""What is not ours: git's ignore rules, its configuration as far as they need it, what its index tracks."""
