"""Settings of the whole suite."""

from hypothesis import settings

# A test that fails because the machine was busy proves nothing.
settings.register_profile("house", deadline=None)
settings.load_profile("house")
