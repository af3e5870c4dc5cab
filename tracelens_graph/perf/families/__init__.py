"""Formulas of cost, and readers of recorded arguments, one file per family. The ops that use them: `op_table`."""
