"""What our order is worth: turns of an experiment, what was in force, the gain week by week."""
