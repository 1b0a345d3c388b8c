"""The environment variables by which launchers, libraries and CI services describe a process.

This module imports nothing, since the recorded program's process reads it.
"""

# Each launcher's variables for rank, world size, local rank and local world size.
PLACE_VARIABLES = (
    ("environment", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("paddle", "PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM", "PADDLE_RANK_IN_NODE", ""),
    *(
        ("mpi", f"{name}_RANK", f"{name}_SIZE", f"{name}_LOCAL_RANK", f"{name}_LOCAL_SIZE")
        for name in ("OMPI_COMM_WORLD", "MV2_COMM_WORLD")
    ),
    ("mpi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK", ""),
    ("flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", ""),
    # A batch script has a SLURM_PROCID without being a task of a step.
    ("slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
)  # fmt: skip

# Variables that identify a run or a job, and tell its number of hosts.
RUN_VARIABLES = (
    *("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "STEPSCOPE_JOB"),
    *("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_NUM_NODES"),
)
NAMESPACE_VARIABLES = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "FLUX_JOB_ID")

# Variables that limit the threads of libraries.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

# CI services' variables for the branch, since they check out a bare commit.
BRANCH_VARIABLES = (
    *("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "BRANCH_NAME"),
    *("BUILDKITE_BRANCH", "CIRCLE_BRANCH"),
)

NOTED_VARIABLES = frozenset(
    (
        *(name for _, *names in PLACE_VARIABLES for name in names if name),
        *RUN_VARIABLES,
        *NAMESPACE_VARIABLES,
        *BRANCH_VARIABLES,
    )
)
"""The variables that a recording keeps; all others stay in the process, as they may be secret."""
