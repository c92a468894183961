"""CMA-ES over the weights of a small network inside the compiled simulator."""
