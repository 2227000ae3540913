"""The wizard behind ``mbpack init``: questions as data, a session without I/O, derivation, writers."""
