"""Which lower-priority holders give way, and what is held meanwhile. No I/O."""
