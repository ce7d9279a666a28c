"""The trainwright command of a login node or a CI job."""
