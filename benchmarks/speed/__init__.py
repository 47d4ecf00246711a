"""Time and memory of readouts, of the sort beneath them, and of what they stand in."""
