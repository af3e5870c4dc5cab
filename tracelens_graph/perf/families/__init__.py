"""Formulas of cost, and readers of recorded arguments, one file per family. The ops that use them: `op_table`.

All of them raise CannotModel where arguments are not recorded, do not fit together, or have a type that is not known.
"""
