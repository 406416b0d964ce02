"""The tests. Importing this module sets the environment of all processes that they start.

One thread for a product of matrices: several test processes share the cores, and a thread that waits for another one
computes (OpenBLAS took six times the CPU time for small products, faiss twelve times).
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
