"""Mending configurations: fixes chosen and verified in rounds, and files moved between releases."""
