"""All ranks of a job: which kernels are one collective, who waited for whom, and what bounds the job."""
