"""Run the races named on the command line, or all of them."""

import subprocess
import sys

ON_ONE_THREAD = (
    "bifurcation",
    "checkpoints",
    "cold_start",
    "convnet_step",
    "graph_classes",
    "graph_training",
    "kernels_of_any_model",
    "maps",
    "probe_cost",
    "recall_step",
    "repeated_spectra",
    "sharpness",
    "sim_ensembles",
    "tangent_kernel",
    "top_eigenvalue",
)
ON_AN_ACCELERATOR = ("diffusion_step", "gpu_ensemble", "gpu_kernel", "on_chip", "vision_step")
AS_IT_IS = ("live_latency", "sweep_cost")
RACES = ON_ONE_THREAD + AS_IT_IS + ON_AN_ACCELERATOR


def main() -> None:
    chosen = sys.argv[1:] or RACES
    for name in chosen:
        if name not in RACES:
            sys.exit(f"there is no race {name!r}; there are {', '.join(RACES)}")
    for name in chosen:  # each in a process of its own; what is pinned is so before anything heavy is imported
        pin = "t.pin_one_thread(); " if name in ON_ONE_THREAD else ""
        program = f"import benchmarks.timing as t; {pin}import benchmarks.{name} as race; race.main()"
        subprocess.run([sys.executable, "-c", program], check=True)


if __name__ == "__main__":
    main()
