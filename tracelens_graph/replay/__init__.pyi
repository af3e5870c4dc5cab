# Made by docs/make_stub.py of the list in __init__.py.

from tracelens_graph.errors import CannotReplay as CannotReplay
from tracelens_graph.replay.listing import replay_coverage as replay_coverage
from tracelens_graph.replay.listing import replay_signatures as replay_signatures
from tracelens_graph.replay.planning import plan as plan
from tracelens_graph.replay.planning import plan_call as plan_call
from tracelens_graph.replay.replay_plan import Argument as Argument
from tracelens_graph.replay.replay_plan import ReplayPlan as ReplayPlan

__all__: list[str]
