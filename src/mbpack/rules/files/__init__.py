"""The file itself: its YAML, its keys, the kinds of its values, the classes it names."""
