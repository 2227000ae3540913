"""Packed data on disk: how they are built, named, found and read."""
