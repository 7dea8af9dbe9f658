"""Event logs: `EventLog` reads, `Pen` appends."""
