"""The safety net around coding agents: checkpoints of the files, an event log of the run."""
