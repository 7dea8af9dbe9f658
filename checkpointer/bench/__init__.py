"""What replaying a run costs here, and what snapshots of it would cost and save: measured, on this storage, for a run.

Nothing is written in the store. What must be written to be measured lies in a directory of its own beside the stores,
on the same file system, and is gone afterwards.
"""
