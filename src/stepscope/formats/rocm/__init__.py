"""ROCm's files: rocprofv3's and rocmProfileData's databases."""
