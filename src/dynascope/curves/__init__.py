"""Curve readers: functions of recorded curves. Stages, paths, plateaus, spikes, orbits, order, spectra and scaling."""

from dynascope.curves import orbits as orbits, order as order, paths as paths, spectra as spectra, stages as stages
from dynascope.curves.orbits import (
    last_cycle as last_cycle,
    period as period,
    transverse_exponent as transverse_exponent,
)
from dynascope.curves.order import (
    comparable_pairs as comparable_pairs,
    cover_pairs as cover_pairs,
    hierarchy as hierarchy,
    level_means as level_means,
    share_in_order as share_in_order,
    violation_share as violation_share,
)
from dynascope.curves.paths import (
    half_times as half_times,
    illusion_gap as illusion_gap,
    largest_difference as largest_difference,
    reversal as reversal,
    signed_area as signed_area,
    terminal_rate as terminal_rate,
)
from dynascope.curves.plateaus import (
    jumps as jumps,
    plateaus as plateaus,
    support_size as support_size,
    switches as switches,
)
from dynascope.curves.spectra import (
    count_above as count_above,
    effective_rank as effective_rank,
    energy_rank as energy_rank,
    rise_steps as rise_steps,
    stable_rank as stable_rank,
)
from dynascope.curves.spikes import (
    Rise as Rise,
    first_spike as first_spike,
    largest_rise as largest_rise,
    spikes as spikes,
    troughs as troughs,
)
from dynascope.curves.stages import (
    descents as descents,
    first_crossing as first_crossing,
    memorization_depth as memorization_depth,
    memorization_peak as memorization_peak,
    peak as peak,
    rises as rises,
    stage_log as stage_log,
    time_below_peak as time_below_peak,
    turning_points as turning_points,
)
from dynascope.curves.statistics import (
    correlation as correlation,
    paired_difference as paired_difference,
    scaling_exponent as scaling_exponent,
)
