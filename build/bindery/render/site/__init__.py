"""The site: one page per chapter, and everything around it."""
