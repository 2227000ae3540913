"""Fine-tuning and pretraining data: sources, preprocessing, tokenisation."""
