"""Agent programs: what they speak, and how their sessions become runs."""
