"""Before numpy is imported anywhere: one BLAS thread, since tests run beside the servers they ask."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
