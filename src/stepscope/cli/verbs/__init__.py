"""The verbs: one file each, one line here."""

from stepscope.cli.command import COMMANDS
from stepscope.cli.verbs.device_peaks import DevicePeaks
from stepscope.cli.verbs.export import Export
from stepscope.cli.verbs.info import Info
from stepscope.cli.verbs.migrate import Migrate
from stepscope.cli.verbs.ps import Ps
from stepscope.cli.verbs.report import MakeReport
from stepscope.cli.verbs.run import Run
from stepscope.cli.verbs.scrub import Scrub
from stepscope.cli.verbs.summary import Summary
from stepscope.cli.verbs.view import View

COMMANDS.register(Run())
COMMANDS.register(Summary())
COMMANDS.register(MakeReport())
COMMANDS.register(View())
COMMANDS.register(Export())
COMMANDS.register(Info())
COMMANDS.register(Ps())
COMMANDS.register(Scrub())
COMMANDS.register(Migrate())
COMMANDS.register(DevicePeaks())
