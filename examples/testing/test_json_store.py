"""The store passes the conformance kit; each of its checks is a test."""

import pytest
from json_store import JsonStore

from arcp_client.testing import STORE_CHECKS, StoreCase


@pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
async def test_store(check, tmp_path):
    stores = {}

    def make():
        directory = tmp_path / str(len(stores))
        store = JsonStore(directory)
        stores[store] = directory
        return store

    await check(StoreCase(make, again=lambda store: JsonStore(stores[store])))
