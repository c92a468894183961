"""When pending jobs start: forecasts forward in time on polls of Graham and Cedar (Mila, 2023)."""
