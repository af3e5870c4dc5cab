"""Programs of XLA, as profiles hold them: instructions, shapes, and what an instruction should cost."""
