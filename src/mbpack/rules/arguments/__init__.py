"""KEY=VALUE arguments and the flags of the launcher."""
