"""A real vLLM on a CPU: installed beside the repository, served on loopback, with a fault if asked."""
