"""ckpt put into an agent's configuration and taken out again: decided, done, noted."""
