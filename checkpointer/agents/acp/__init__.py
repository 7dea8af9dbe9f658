"""The Agent Client Protocol: an editor and an agent talk through us, and each prompt becomes a turn."""
