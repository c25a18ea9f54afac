"""Run the races named on the command line, or all of them."""

import subprocess
import sys

RACES = ("bifurcation", "cold_start", "probe_cost", "sharpness", "sim_ensembles", "tangent_kernel", "top_eigenvalue")


def main() -> None:
    chosen = sys.argv[1:] or RACES
    for name in chosen:
        if name not in RACES:
            sys.exit(f"there is no race {name!r}; there are {', '.join(RACES)}")
    for name in chosen:  # each in a process of its own, pinned before anything heavy is imported
        program = f"import benchmarks.timing as t; t.pin_one_thread(); import benchmarks.{name} as race; race.main()"
        subprocess.run([sys.executable, "-c", program], check=True)


if __name__ == "__main__":
    main()
