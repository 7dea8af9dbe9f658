"""Looking at what was kept, without touching it: which turn wrote a line, which turn broke a test."""
