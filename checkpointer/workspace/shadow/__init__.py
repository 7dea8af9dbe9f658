"""The shadow repository: checkpoints, the refs that name them, how old ones are let go."""
