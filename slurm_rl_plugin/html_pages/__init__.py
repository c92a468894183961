"""Pages of HTML for people: one base template and one style sheet, without any outside resource."""
