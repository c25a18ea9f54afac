"""Dynamics: how parameters move. One compiled loop runs descents, flows and maps, alone or as ensembles."""

from dynascope.dynamics.averages import averaged as averaged, with_average as with_average
from dynascope.dynamics.bifurcation import (
    Bifurcation as Bifurcation,
    bifurcation as bifurcation,
    escape_times as escape_times,
)
from dynascope.dynamics.central_flow import CentralFlow as CentralFlow, central_flow as central_flow
from dynascope.dynamics.clipping import clipped_network as clipped_network
from dynascope.dynamics.descend import Descent as Descent, descend as descend
from dynascope.dynamics.ensemble import ensemble as ensemble, member_seeds as member_seeds
from dynascope.dynamics.flow import Flow as Flow, dense_flow as dense_flow, flow as flow
from dynascope.dynamics.iterate import Map as Map, iterate as iterate
from dynascope.dynamics.member import Member as Member
from dynascope.dynamics.monitor import Monitor as Monitor, monitored_by as monitored_by
from dynascope.dynamics.observe import observe as observe
from dynascope.dynamics.oscillation import oscillation as oscillation
from dynascope.dynamics.schedule import linear_steps as linear_steps, log_steps as log_steps
from dynascope.dynamics.second_moments import RMSProp as RMSProp, ScalarRMSProp as ScalarRMSProp
from dynascope.dynamics.trajectory import Trajectory as Trajectory
