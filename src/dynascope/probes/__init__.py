"""Probes: pure functions of the learner, run inside the loop; and functions that read recorded curves."""

from dynascope.probes import order as order
from dynascope.probes import stages as stages
from dynascope.probes import trajectory as trajectory
from dynascope.probes.learner import displacement as displacement
from dynascope.probes.learner import jacobian as jacobian
from dynascope.probes.learner import loss as loss
from dynascope.probes.learner import output as output
from dynascope.probes.learner import outputs as outputs
from dynascope.probes.probe import Moment as Moment
from dynascope.probes.probe import Probe as Probe
from dynascope.probes.probe import probe as probe
