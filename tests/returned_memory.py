"""Settings of a process whose peak of memory is what it held, and not what was yet to be freed.

Arrow's pool and the C library keep what was freed for a while, some threads longer than others: a
peak is 20 MB more or less by chance. With these, what is freed goes back to the system at once.
"""

RETURNED = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 16),
    "MALLOC_TRIM_THRESHOLD_": "0",
}
SMALL, LARGE = 200_000, 1_000_000  # events; a log in memory takes 20 bytes for each: 16 MB more
ALLOWED = 8 << 10  # KiB by which the large log may need more memory: half of that
