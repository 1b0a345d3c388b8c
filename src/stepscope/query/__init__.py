"""Questions in SQL about traces."""

from stepscope.query.engine import run_sql
from stepscope.trace.model import QUERIES

QUERIES.register(run_sql)
