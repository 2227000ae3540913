"""Packed rows: batch sizes, widths, multiples, lengths, steps, loss."""
