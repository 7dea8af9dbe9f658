"""Files brought to what a plan says, each checked before it is replaced, settled after a kill."""
