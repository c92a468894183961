"""The rules that need no learning, on the loads of 2008 and 2011."""
