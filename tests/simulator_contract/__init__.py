"""The simulator answers as a real vLLM does: the same fields, types, statuses and error wordings."""
