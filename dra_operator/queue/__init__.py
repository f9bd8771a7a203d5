"""Units and their order: priority, age, backoff, wake-ups. No I/O and no devices."""
