"""Predicted run times in the plan of EASY (SC 2015)."""
