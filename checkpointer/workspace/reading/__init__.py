"""What is on disk: walked, compared with what was seen last, read, captured."""
