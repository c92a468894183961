"""When jobs start, foretold by replays of the queue, along the replay of a whole log."""
