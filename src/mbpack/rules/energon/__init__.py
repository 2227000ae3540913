"""Energon datasets: what they check, how they pack, what happens after the start."""
