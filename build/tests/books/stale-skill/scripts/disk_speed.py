"""How fast does this disk read?"""
