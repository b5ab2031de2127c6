"""The site: one page a chapter, and what is found around the pages."""
