"""The verbs: one file each, one line here."""

from stepscope.cli.command import COMMANDS
from stepscope.cli.verbs.attach import Attach
from stepscope.cli.verbs.capture import Capture
from stepscope.cli.verbs.device_peaks import DevicePeaks
from stepscope.cli.verbs.diff import DiffTraces
from stepscope.cli.verbs.export import Export
from stepscope.cli.verbs.gate import Gate
from stepscope.cli.verbs.history import ShowHistory
from stepscope.cli.verbs.info import Info
from stepscope.cli.verbs.mcp import Mcp
from stepscope.cli.verbs.migrate import Migrate
from stepscope.cli.verbs.ps import Ps
from stepscope.cli.verbs.report import MakeReport
from stepscope.cli.verbs.run import Run
from stepscope.cli.verbs.scrub import Scrub
from stepscope.cli.verbs.sql import Sql
from stepscope.cli.verbs.summary import Summary
from stepscope.cli.verbs.top import Top
from stepscope.cli.verbs.view import View

COMMANDS.register(Run())
COMMANDS.register(Summary())
COMMANDS.register(MakeReport())
COMMANDS.register(View())
COMMANDS.register(DiffTraces())
COMMANDS.register(Gate())
COMMANDS.register(ShowHistory())
COMMANDS.register(Ps())
COMMANDS.register(Top())
COMMANDS.register(Capture())
COMMANDS.register(Attach())
COMMANDS.register(Export())
COMMANDS.register(Info())
COMMANDS.register(Sql())
COMMANDS.register(Scrub())
COMMANDS.register(Mcp())
COMMANDS.register(Migrate())
COMMANDS.register(DevicePeaks())
