"""Start times forecast by replays of the queue, along the replay of a whole log."""
