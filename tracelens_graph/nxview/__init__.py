"""The networkx face of a graph in columns: mappings that networkx reads as if they were its own dictionaries."""
