"""Economic scheduling (Ernemann, Hamscher, Yahyapour 2002)."""
