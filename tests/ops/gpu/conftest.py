import os

# Scripts, and tests for a process of its own: see `test_interpreter.py`.
is_interpreted = os.environ.get("TRITON_INTERPRET") == "1"
collect_ignore = ["compile_kernels.py", "counting.py"]
if not is_interpreted:
    collect_ignore.append("interpreted.py")
