"""The doors: parse, call one thing, print."""
