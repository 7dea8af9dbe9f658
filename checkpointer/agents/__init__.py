"""Agent programs: how they are configured, what they speak, how their sessions become runs."""
