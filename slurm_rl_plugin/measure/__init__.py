"""Intervals of figures and the words that they allow; blocks of time that are drawn for them."""
