"""The real API server: connection, client, chunked lists and watches. Knows nothing of decisions or of the engine."""
