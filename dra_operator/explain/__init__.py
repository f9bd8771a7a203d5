"""Why a unit waits: reports and summaries made from what an attempt found. No I/O and no search."""
