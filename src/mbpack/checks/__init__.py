"""Runs the tables of what a start-up checks over the settings of a configuration."""
