"""Why ranks come late to collectives: what each did that the median rank did not."""
