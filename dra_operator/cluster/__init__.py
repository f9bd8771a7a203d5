"""The two worlds the engine runs in: a real API server (`kubernetes`) and an embedded one (`memory`).

Both speak the same requests and responses (`rest`), so that one suite of API semantics runs on both. No decisions are made here.
"""
