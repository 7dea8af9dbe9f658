"""What undo takes back, decided from checkpoints alone; pure."""
