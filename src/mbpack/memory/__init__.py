"""How much GPU memory a training run needs: parameters, states, what layers keep for the backward pass, and the peak."""
