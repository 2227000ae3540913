"""Wizard and configuration doctor for sequence packing and long-context fine-tuning in NVIDIA Megatron-Bridge."""

# A literal: reading the installed metadata would cost every start about 40 ms.
__version__ = "0.1.0"
