"""What recipe functions of a Megatron-Bridge return, worked out from their sources without calling them."""
