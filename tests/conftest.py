"""Settings of all tests."""

from hypothesis import settings

# How long an example takes says nothing about what it tests, and one that failed is worth a test
# of its own rather than a place in a database.
settings.register_profile("tprofile", deadline=None, database=None)
settings.load_profile("tprofile")
