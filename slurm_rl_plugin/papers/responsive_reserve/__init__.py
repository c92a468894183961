"""Beyond both papers of Perez et al.: networks that hold processors for interactive jobs."""
