"""`bindery format`: how sources are typed evenly, no word changed."""
