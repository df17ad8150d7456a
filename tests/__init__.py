"""Tests. A package, because an installed distribution may ship a `tests` of its own."""
