"""What AMD's profilers write: JSON results of rocprofv3, and databases of rocprofv3 and of rocmProfileData."""
