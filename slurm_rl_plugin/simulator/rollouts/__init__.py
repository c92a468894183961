"""Simulations that write down what a learner learns from."""
