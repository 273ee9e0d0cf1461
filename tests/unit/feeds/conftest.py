"""The dashboard of tests/unit/web: most tests of feeds read them as its pages do."""

from tests.unit.web.conftest import client, dashboard, door, gates, other, runtime, url

__all__ = ["client", "dashboard", "door", "gates", "other", "runtime", "url"]
