"""Makes the GitHub stand-in available to every test here."""

from tests.github.stand_in import github

__all__ = ["github"]
