"""Formulas of cost, one file per family of operations, and the operations that use them."""
