"""Load generators: one engine, and a dialect for each protocol.

What sends, receives, waits and checks is the same code for every broker; a dialect only spells the bytes. That is what
"of equal quality" means here.
"""
