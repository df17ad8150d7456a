"""Before numpy is imported anywhere: one BLAS thread, since tests run beside the servers they ask."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hypothesis import HealthCheck, settings

# The same examples on every machine, and no failure because a machine is slow: time is asserted in bench/, as ratios.
settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")
