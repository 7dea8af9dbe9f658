"""Does it all work? Each thing that was looked at, what was found, and the command that mends it."""
