"""All ranks of a job: which of their kernels are one collective, who waited for whom, and what bounds the job."""
